"""Bodies of answers as they come in: never late, never cut off unnoticed."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING

from envguard.errors import NetworkError
from envguard.lock.failures import HarmfulPageError
from envguard.redaction import clean_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import requests

_BLOCK = 256 * 1024


def begin_answer(
    send: Callable[[], requests.Response], url: str, limit_s: float
) -> requests.Response:
    """Send a request and wait for the head of its answer, in all no longer than a limit.

    A head that comes in byte by byte never runs into the limits between two bytes, so it is
    waited for in a thread that is left behind.

    Args:
        send: Sends it.
        url: Where to, for messages.
        limit_s: How long it may take.

    Raises:
        HarmfulPageError: It takes longer.
    """
    answers: queue.SimpleQueue[requests.Response | BaseException] = queue.SimpleQueue()

    def work() -> None:
        try:
            answers.put(send())
        except BaseException as err:  # noqa: BLE001 - raised again where it is waited for
            answers.put(err)

    threading.Thread(target=work, daemon=True).start()
    try:
        answer = answers.get(timeout=limit_s)
    except queue.Empty as err:
        raise HarmfulPageError(f"{clean_text(url)}: no answer within {limit_s:.0f} s") from err
    if isinstance(answer, BaseException):
        raise answer
    return answer


def read_parts(answer: requests.Response, url: str, limit_s: float) -> Iterator[bytes]:
    """The body of an answer, piece by piece.

    Args:
        answer: Opened as a stream.
        url: Where it came from, for messages.
        limit_s: How long the whole of it may take.

    Raises:
        NetworkError: It breaks off, or takes longer.
    """
    import requests
    from urllib3.exceptions import HTTPError, ReadTimeoutError

    started = time.monotonic()
    try:
        yield from _within(_arriving(answer), url, started + limit_s)
        expected = answer.headers.get("Content-Length", "")
        if expected.isdecimal() and answer.raw.tell() < int(expected):
            raise NetworkError(f"{clean_text(url)}: the answer was cut off")
    except (ReadTimeoutError, requests.Timeout, TimeoutError) as err:
        raise HarmfulPageError(f"{clean_text(url)}: the server stopped in the middle") from err
    except (requests.RequestException, HTTPError, OSError) as err:
        raise NetworkError(
            f"{clean_text(url)}: the answer was cut off ({type(err).__name__})"
        ) from err


def _arriving(answer: requests.Response) -> Iterator[bytes]:
    """The body as it comes in, in whatever pieces: a full block may take forever."""
    read1 = getattr(answer.raw, "read1", None)  # urllib3 from 2.1 on
    if read1 is None:
        yield from answer.iter_content(1024)
        return
    while part := read1(_BLOCK, decode_content=True):
        yield part


def _within(parts: Iterable[bytes], url: str, deadline: float) -> Iterator[bytes]:
    for part in parts:
        if time.monotonic() > deadline:
            raise HarmfulPageError(f"{clean_text(url)}: the server is too slow")
        yield part
