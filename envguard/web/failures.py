"""What a server or index refuses, said as what it is, with what to do."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from envguard.errors import NetworkError
from envguard.redaction import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterable


NO_PAGE = "has no page for torch"


TLS_HINT = (
    "check the address and the clock; an authority of your own is named in SSL_CERT_FILE (uv) and "
    "REQUESTS_CA_BUNDLE, or trusted by the system with UV_SYSTEM_CERTS=1"
)


_MOST_SHOWN_WAIT_S = 7 * 24 * 3600


class StatusError(NetworkError):
    """A server answers a status that is no answer.

    Args:
        message: What it answers, and where.
        hint: What to do.
        url: What it was asked for.
        status: What it answers.
    """

    def __init__(self, message: str, hint: str, url: str, status: int) -> None:
        super().__init__(message, hint)
        self.url = url
        self.status = status


class UnclearError(NetworkError):
    """An index that uv cannot read, for a reason that asking once more may tell better.

    Args:
        message: In uv's words.
        hint: What to do.
        url: What it was asked for.
    """

    def __init__(self, message: str, hint: str, url: str) -> None:
        super().__init__(message, hint)
        self.url = url


class HarmfulPageError(NetworkError):
    """A page that would hold up or flood whoever reads it, or that leads where none may lead.

    Args:
        message: What it does, and where it lies.
        hint: What to do.
        is_silence: The server said nothing at all for too long.
    """

    def __init__(self, message: str, hint: str = "", *, is_silence: bool = False) -> None:
        super().__init__(message, hint or "check the address of the index, or use another one")
        self.is_silence = is_silence


class NoPageError(NetworkError):
    """An index has no page for some packages.

    Args:
        message: Which, and where.
        hint: What to do.
        names: Of the packages.
    """

    def __init__(self, message: str, hint: str, names: frozenset[str]) -> None:
        super().__init__(message, hint)
        self.names = names


def no_page_error(names: Iterable[str], index: str | None, reason: str) -> NoPageError:
    """The error for packages that an index has no page for: the name or the address is wrong.

    Args:
        names: Of the packages.
        index: Its address; None for the one that uv is configured to use.
        reason: In uv's words.
    """
    place = clean_text(index) if index else "the configured index"
    return NoPageError(
        f"{place} has no page for {', '.join(sorted(names))}: 404 Not Found ({reason})",
        hint="check the name of the package and the address of the index",
        names=frozenset(names),
    )


def refusal_error(url: str, status: int = 403) -> StatusError:
    """The error for an index that refuses access.

    Args:
        url: Its address.
        status: What it answers.
    """
    return status_error(url, status, what="index ")


def status_error(url: str, status: int, *, what: str = "", retry_after: str = "") -> StatusError:
    """The error for a server that answers a status: what it means and what to do.

    Args:
        url: What it was asked for.
        status: What it answers; the words beside it are the standard's, never the server's.
        what: Comes before the address.
        retry_after: The header of that name; empty for none.
    """
    place, said = f"{what}{clean_text(url)}", status_words(status)
    match status:
        case 401 | 403:
            message = f"{place} refuses access: {said}"
            hint = "check its address, and the credentials in .netrc, the keyring or the index URL"
        case 407:
            message = f"{place}: the proxy on the way asks for credentials: {said}"
            hint = "put user and password into HTTPS_PROXY or HTTP_PROXY, or the host into NO_PROXY"
        case 404 | 410:
            message = f"{place}: there is no such page: {said}"
            hint = "check the address"
        case 429:
            message = f"{place}: it answers {said}{_wait(retry_after)}"
            hint = "wait and run it again: what was fetched is cached"
        case _ if status >= 500:
            message = f"{place}: it answers {said}{_wait(retry_after)}"
            hint = "the server is in trouble: run it again later, what was fetched is cached"
        case _:
            message = f"{place}: it answers {said}"
            hint = "check the address and the proxy settings"
    return StatusError(message, hint, url, status)


def status_words(status: int) -> str:
    """A status with the words that the standard has for it."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _wait(retry_after: str) -> str:
    """What ``Retry-After`` asks for in seconds; a date or nonsense says nothing."""
    is_number = retry_after.isascii() and retry_after.isdecimal() and len(retry_after) < 10
    if not is_number or int(retry_after) > _MOST_SHOWN_WAIT_S:
        return ""
    return f" and asks to wait {int(retry_after)} s"
