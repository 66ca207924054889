"""Bodies of answers as they come in: never late, never cut off unnoticed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from envguard.errors import NetworkError
from envguard.redaction import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import requests

_BLOCK = 256 * 1024


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
    from urllib3.exceptions import HTTPError

    started = time.monotonic()
    try:
        yield from _within(_arriving(answer), url, started + limit_s)
        expected = answer.headers.get("Content-Length", "")
        if expected.isdecimal() and answer.raw.tell() < int(expected):
            raise NetworkError(f"{clean_text(url)}: the answer was cut off")
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
            raise NetworkError(f"{clean_text(url)}: the server is too slow")
        yield part
