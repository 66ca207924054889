"""What uv says when it fails, as one error that names the cause; failures told apart."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from envguard.errors import EnvguardError, NetworkError, NoBuildError, ToolError
from envguard.redaction import clean_text
from envguard.values import dataclass
from envguard.web.failures import TLS_HINT, UnclearError, refusal_error, status_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envguard.backend import RejectedBuild
    from envguard.lock.uv import UvExit


PROJECT = "envguard-lock"


class UnsolvableError(NoBuildError):
    """The requirements, with the torch build that was tried, have no solution.

    Args:
        reason: Why, in one line.
        bounds: What packages ask of torch, torchvision and torchaudio in that reason, as pairs
            of name and bounds.
        unknown: Packages that the index has no page for.
        lacking: Packages that it has in other versions only.
        refused: The address that answered 403 to one of the questions, or empty.
    """

    def __init__(
        self,
        reason: str,
        bounds: tuple[tuple[str, SpecifierSet], ...] = (),
        unknown: frozenset[str] = frozenset(),
        lacking: frozenset[str] = frozenset(),
        refused: str = "",
    ) -> None:
        super().__init__(f"the request cannot be resolved: {reason}")
        self.reason = reason
        self.bounds = bounds
        self.unknown = unknown
        self.lacking = lacking
        self.refused = refused


class UnbuildableError(ToolError):
    """A release has no wheel for the target, and its source does not say what it needs.

    The resolver may have come to it only because nothing newer goes with the rest.
    """


class NoCandidateError(NoBuildError):
    """No torch build can be locked.

    Args:
        failed: The builds, each with the reasons against it.
    """

    def __init__(
        self, message: str, hint: str = "", failed: tuple[RejectedBuild, ...] = ()
    ) -> None:
        super().__init__(message, hint)
        self.failed = failed


_MAX_REASON = 400
_UNSOLVED = "No solution found when resolving dependencies"
_BUILD = re.compile(r"Failed to (?:download and )?build(?: source distribution)? `([^`]+)`")
_FETCH = re.compile(
    r"(?:Failed to fetch|for url|Failed to read `--find-links` URL|unexpected \w+ from"
    r"|`?Content-Type`?(?: \"[^\"]*\"| header)? for)"
    r":? ?\(?`?([^\s`)]+)"
)
_REQUEST = re.compile(
    r"Request failed|error sending request|HTTP status|Failed to (?:fetch|read)|"
    r"Received some unexpected|(?:Missing|Unsupported) `Content-Type`"
)
_STATUS = re.compile(r"HTTP status (?:client|server) error \(([45]\d\d)\b")
# As rustls says it, and in a few releases only by the name of the case.
_TLS_WORDS = (
    (("UnknownIssuer",), "its certificate is signed by nobody who is trusted"),
    (("CaUsedAsEndEntity",), "its certificate is signed by itself"),
    (("certificate expired", "Expired"), "its certificate has expired"),
    (("certificate not valid yet", "NotValidYet"), "its certificate is not valid yet"),
    (("certificate not valid for name", "NotValidForName"), "its certificate is for another host"),
    (("",), "its certificate is not accepted"),
)
_REFUSED = re.compile(
    r"An index(?: URL)? \((?P<url>[^)]{0,2000})\)[^()]{0,500}?"
    r"(?:\((?P<a>40[13] \w+)\)|(?P<b>40[13] \w+))"
)
_TREE = re.compile("^\\s*[\u00d7\u2570\u2500\u25b6\u2502]+\\s?")  # the branches older releases draw
_NO_CONFIG = re.compile(r"Failed to parse `[^`]*pyproject\.toml`")
_DISABLED = re.compile(r"network was disabled|Network connectivity is disabled")
_SPECIFIER = r"((?:[<>=!~]=?=?[^\s,]+)(?:,\s*[<>=!~]=?=?[^\s,]+)*)"
_NEEDED = re.compile(
    r"depends? on (torch|torchvision|torchaudio)(?:\[[^\]]*\])?"
    rf"{_SPECIFIER}(?: and \1{_SPECIFIER})?"
)
_OWN = re.compile(rf"{PROJECT} depends on \S+")
_MARKER = re.compile(r"\{[^{}]*\}")
_ABSENT = re.compile(
    r"(?:there (?:is|are) no versions? of |because )?"
    r"(?<![\w.-])([a-z0-9][\w.-]{0,200}+)(?:[<>=!~]\S{0,200}+)? "
    r"was not found in the (?:package registry|cache|provided package locations)|"
    r"there (?:is|are) no versions? of ([a-z0-9][\w.-]*)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Uv's words: headline, the causes under it, and the hints after them, one line each."""

    headline: str
    causes: tuple[str, ...]
    hints: tuple[str, ...]
    text: str


def explain_failure(ended: UvExit, variables: Mapping[str, str] | None = None) -> EnvguardError:
    """The error that says why a run of uv failed.

    Args:
        ended: A run whose exit status is not 0.
        variables: The environment that it ran in, for the proxies; None for none.

    Returns:
        NetworkError, UnsolvableError or ToolError; never with credentials in its text.
    """
    parts = _split(clean_text(ended.talk))
    if ended.returncode < 0:
        return ToolError(f"uv was ended by signal {-ended.returncode}")
    build = _BUILD.search(parts.text)
    if build:
        return _build_error(build[1], parts)
    if _UNSOLVED in parts.headline:
        return _unsolved(parts)
    if _DISABLED.search(parts.text) or "offline" in parts.headline.lower():
        return _offline(parts)
    if _REQUEST.search(parts.text):
        return _network_error(parts, variables or {})
    said = ": ".join(dict.fromkeys(filter(None, (parts.headline, *parts.causes[-1:]))))
    return ToolError(f"uv failed: {_shorten(said or 'it gives no reason')}")


def check_config_was_read(ended: UvExit) -> None:
    """Refuse a run in which uv ignored the project that was written for it.

    Raises:
        ToolError: It did, and would have taken everything from one index.
    """
    if _NO_CONFIG.search(ended.talk):
        said = clean_text(" ".join(ended.talk.split()))
        raise ToolError(f"uv does not understand its project file: {_shorten(said)}")


def _split(talk: str) -> _Parts:
    """Take uv's report apart; both its plain form and its older tree form are understood."""
    lines = [_TREE.sub("", line).strip() for line in talk.splitlines()]
    body: list[str] = []
    hints: list[str] = []
    current: list[str] = body
    for line in lines:
        if line.startswith("warning:"):
            continue
        if line.startswith("hint:"):
            hints.append(line.removeprefix("hint:").strip())
            current = hints
        elif line.startswith(("cause:", "Caused by:", "error:")) or not body:
            body.append(line.partition(":")[2].strip() if _is_labelled(line) else line)
            current = body
        elif line:
            current[-1] = f"{current[-1]} {line}".strip()
    return _Parts(body[0] if body else "", tuple(body[1:]), tuple(hints), "\n".join(lines))


def _is_labelled(line: str) -> bool:
    return line.startswith(("cause:", "Caused by:", "error:"))


def _unsolved(parts: _Parts) -> EnvguardError:
    hints = " ".join(parts.hints)
    if _DISABLED.search(hints) or _DISABLED.search(parts.text):
        return _offline(parts)
    told = " ".join((parts.headline.partition(_UNSOLVED)[2].lstrip(": "), *parts.causes))
    reason = _MARKER.sub("", told)
    refused = _REFUSED.search(hints)
    if refused and (refused["a"] or refused["b"]).startswith("401"):
        return refusal_error(refused["url"], 401)
    return UnsolvableError(
        _essential(reason),
        _bounds(reason),
        frozenset(unknown for unknown, _ in _ABSENT.findall(reason) if unknown),
        frozenset(lacking for _, lacking in _ABSENT.findall(reason) if lacking),
        refused["url"] if refused else "",
    )


def _offline(parts: _Parts) -> NetworkError:
    absent = sorted({a or b for a, b in _ABSENT.findall(parts.text)} - {""})
    what = ", ".join(absent) or "what the request needs"
    return NetworkError(
        f"offline: {what} is not in uv's cache", hint="run it once without --offline"
    )


def _network_error(parts: _Parts, variables: Mapping[str, str]) -> NetworkError:
    """What is wrong between uv and an index, by the innermost cause that says it."""
    whole = " ".join((parts.headline, *parts.causes))
    address = _FETCH.search(whole)
    url = address[1] if address else "the index"
    what = "index cannot be read: "
    if status := _STATUS.search(whole):
        return status_error(url, int(status[1]), what=what)
    if "tunnel error: proxy authorization required" in whole:
        return status_error(url, 407, what=what)
    if "invalid peer certificate" in whole:
        words = next(w for signs, w in _TLS_WORDS if any(sign in whole for sign in signs))
        return NetworkError(f"{what}{url}: {words}", hint=TLS_HINT)
    if "received corrupt message of type InvalidContentType" in whole:
        return NetworkError(f"{what}{url}: what answers there speaks no TLS", hint=TLS_HINT)
    last = parts.causes[-1] if parts.causes else parts.headline
    proxy = _proxy_for(url, variables) if "client error (Connect)" in whole else ""
    way = f" (through the proxy {proxy})" if proxy else ""
    message = f"{what}{url}{way}: {_shorten(last)}"
    hint = "check the network, the proxy settings and the index address"
    if "Missing `Content-Type`" in whole and url.startswith(("http://", "https://")):
        return UnclearError(message, hint, url)  # so ends a redirect that leads back to itself
    return NetworkError(message, hint)


def _proxy_for(url: str, variables: Mapping[str, str]) -> str:
    """The proxy that an address is asked through, without credentials; empty for none."""
    from urllib.parse import urlsplit

    from requests.utils import should_bypass_proxies

    stated = {
        name.lower().removesuffix("_proxy"): value
        for name, value in sorted(variables.items())  # upper case first: lower case wins
        if name.lower().endswith("_proxy") and value
    }
    if should_bypass_proxies(url, stated.get("no", "")):
        return ""
    return clean_text(stated.get(urlsplit(url).scheme) or stated.get("all", ""))


def _build_error(package: str, parts: _Parts) -> UnbuildableError:
    lines = [line for line in parts.text.partition("hint:")[0].splitlines() if line]
    last = next((line for line in reversed(lines) if not line.startswith("[")), "")
    return UnbuildableError(
        f"{package.replace('==', ' ').replace('@', ' ')} has no wheel for the target and its "
        f"source does not say what it needs without being built: {_shorten(last)}",
        hint="ask for a version that has wheels, or leave it out and build it on the machine",
    )


def _essential(reason: str) -> str:
    """What uv's proof rests on, without its intermediate conclusions."""
    sentences = re.split(r"(?<!\s)\s*(?:And because|Because)\s+", reason.strip())
    premises = [re.split(r",\s+we can conclude that", s)[0].strip() for s in sentences]
    said = "; ".join(dict.fromkeys(premise for premise in premises if premise))
    said = said.replace(f"{PROJECT} depends on", "the request asks for")
    return _shorten(said.replace("your project", "the request"))


def _bounds(reason: str) -> tuple[tuple[str, SpecifierSet], ...]:
    found = []
    for name, *texts in _NEEDED.findall(_OWN.sub("", reason)):
        for text in filter(None, texts):
            try:
                found.append((name, SpecifierSet(text.rstrip(".,"))))
            except InvalidSpecifier:
                continue
    return tuple(dict.fromkeys(found))


def _shorten(text: str) -> str:
    flat = " ".join(text.split()).rstrip(".")
    return flat if len(flat) <= _MAX_REASON else f"{flat[: _MAX_REASON - 3]}..."
