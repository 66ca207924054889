"""Asks web servers for pages and files: bounded, cached by ETag, never led to plain http."""

from __future__ import annotations

import hashlib
import json
import queue
import re
import sys
import threading
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from envguard.errors import NetworkError
from envguard.files import write_atomically
from envguard.redaction import clean_text, strip_credentials
from envguard.values import dataclass
from envguard.web.failures import TLS_HINT, HarmfulPageError, status_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import requests

    from envguard.web.lock_limits import LockLimits


_FORMAT = "v1"


@dataclass(frozen=True, slots=True)
class CachedPage:
    """A page that was read before.

    Args:
        url: Where it lies after redirects, without credentials.
        etag: The server's mark of this content.
        text: Its content.
    """

    url: str
    etag: str
    text: str


@dataclass(frozen=True, slots=True)
class WebCache:
    """A folder of answers. A cache that cannot be read or written is no reason to fail.

    Args:
        folder: Where it lies; made when the first answer is kept.
    """

    folder: Path

    def page(self, key: str) -> CachedPage | None:
        """The page of an address; None when there is none that can be read."""
        found = self._read("page", key)
        try:
            return CachedPage(**found) if found else None
        except TypeError:
            return None

    def keep_page(self, key: str, page: CachedPage) -> None:
        """Keep the page of an address."""
        self._write("page", key, asdict(page))

    def digest(self, key: str, etag: str) -> str | None:
        """The sha256 of a file whose content has this mark; None when not known."""
        found = self._read("digest", key)
        return found.get("sha256") if found and found.get("etag") == etag else None

    def last_digest(self, key: str) -> str | None:
        """The sha256 that a file had when it was last asked about; None when it never was."""
        found = self._read("digest", key)
        return found.get("sha256") if found else None

    def keep_digest(self, key: str, etag: str, sha256: str) -> None:
        """Keep the sha256 of a file."""
        self._write("digest", key, {"etag": etag, "sha256": sha256})

    def _path(self, kind: str, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()
        return self.folder / _FORMAT / f"{kind}-{name}.json"

    def _read(self, kind: str, key: str) -> dict[str, str] | None:
        try:
            document = json.loads(self._path(kind, key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        is_ours = isinstance(document, dict) and document.get("key") == key
        value = document.get("value") if is_ours else None
        is_plain = isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
        return value if is_plain else None

    def _write(self, kind: str, key: str, value: Mapping[str, str]) -> None:
        path = self._path(kind, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps({"key": key, "value": value}))
        except OSError:
            return


def cache_folder(environ: Mapping[str, str], system: str = sys.platform) -> Path | None:
    """The user's cache folder for envguard.

    Args:
        environ: ``ENVGUARD_CACHE_DIR`` wins, then ``XDG_CACHE_HOME``, then what is usual.
        system: As ``sys.platform`` names it.

    Returns:
        None when the variables name no home.
    """
    if stated := environ.get("ENVGUARD_CACHE_DIR"):
        return Path(stated)
    if shared := environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "envguard"
    if system == "win32":
        local = environ.get("LOCALAPPDATA")
        return Path(local) / "envguard" / "cache" if local else None
    home = environ.get("HOME")
    if not home:
        return None
    return Path(home) / ("Library/Caches" if system == "darwin" else ".cache") / "envguard"


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


MOST_PAGE_BYTES = 32 * 1024 * 1024
# The PyTorch index answers 403 for what it does not hold.
ABSENT = frozenset({403, 404, 410})
_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OK, _PART, _NOT_MODIFIED = 200, 206, 304
_HEADERS = {"User-Agent": "envguard"}
_PLAIN = {"Accept-Encoding": "identity"}
_HEADLESS = frozenset({403, 405, 501})
_CERTIFICATE = re.compile(r"certificate verify failed: ([\w ,'.:*-]+?)\.? ?\(")
_PROXY_ASKS = re.compile(r"\b407\b")
_SHORTEST_S = 0.01


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a server may take.

    Args:
        connect_s: Until it accepts the connection.
        read_s: Between two parts of an answer.
        page_s: For a whole page.
        file_s: For a whole file.
    """

    connect_s: float = 10.0
    read_s: float = 30.0
    page_s: float = 120.0
    file_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class Page:
    """A page as a server gave it.

    Args:
        url: Where it lies after redirects, without credentials.
        text: Its content.
        is_old: It was not asked for now: it is what the cache holds.
    """

    url: str
    text: str
    is_old: bool = False


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """What a server says about a file without sending it.

    Args:
        url: As it was asked for, without credentials.
        size: In bytes; None when it does not say.
        etag: Its mark of this content; empty when it gives none.
    """

    url: str
    size: int | None
    etag: str


class Web:
    """The network, or its absence.

    Args:
        cache: Where answers are kept; None for nowhere.
        is_offline: Nothing is asked, only the cache is read.
        timeouts: How long servers may take.
        limits: What the whole lock may take, which counts as well; None for no end.
        authorities: File of certificates that are trusted, as uv takes it from ``SSL_CERT_FILE``;
            empty for the usual ones.
    """

    def __init__(
        self,
        cache: WebCache | None = None,
        *,
        is_offline: bool = False,
        timeouts: Timeouts | None = None,
        limits: LockLimits | None = None,
        authorities: str = "",
    ) -> None:
        self.cache = cache
        self.is_offline = is_offline
        self.timeouts = timeouts or Timeouts()
        self._limits = limits
        self._authorities = authorities
        self._session: requests.Session | None = None
        self._pages: dict[str, Page | None] = {}

    def page(self, url: str, *, accept: str = "text/html") -> Page | None:
        """Ask for a page, at most once.

        Args:
            url: Its address; credentials in it are used and not kept.
            accept: The kinds of content that are understood.

        Returns:
            None when the server says that there is none, or, offline, when none is in the cache.

        Raises:
            NetworkError: No answer, a broken one, or one that is too large.
        """
        key = strip_credentials(url)
        if key not in self._pages:
            self._pages[key] = self._page(url, key, accept)
        return self._pages[key]

    def _page(self, url: str, key: str, accept: str) -> Page | None:
        known = self.cache.page(key) if self.cache else None
        if self.is_offline:
            return Page(known.url, known.text, is_old=True) if known else None
        headers = {"Accept": accept}
        if known:
            headers["If-None-Match"] = known.etag
        with self._open("GET", url, headers) as answer:
            if answer.status_code == _NOT_MODIFIED and known:
                return Page(known.url, known.text)
            if answer.status_code in ABSENT:
                return None
            _check_status(answer, url)
            body = self._read_body(answer, url)
            page = Page(strip_credentials(answer.url), body.decode("utf-8", "replace"))
            etag = answer.headers.get("ETag", "")
        if self.cache and etag:
            self.cache.keep_page(key, CachedPage(page.url, etag, page.text))
        return page

    def look(self, url: str, *, accept: str = "text/html") -> None:
        """Read a page to its end for what it does to a reader; nothing of it is kept.

        Raises:
            HarmfulPageError: It never ends, is too large or too slow, or leads astray.
            StatusError: The server answers with another status than success.
            NetworkError: No answer, or a broken one.
        """
        with self._open("GET", url, {"Accept": accept}) as answer:
            _check_status(answer, url)
            for _ in self._bounded(answer, url):
                pass

    def content(self, url: str, limit_bytes: int) -> bytes:
        """Download a file; nothing of it is kept.

        Args:
            url: Its address.
            limit_bytes: The most that is read.

        Raises:
            NetworkError: No answer, a broken one, or one that is larger.
        """
        if self.is_offline:
            raise NetworkError(f"offline: {clean_text(url)} cannot be asked for")
        body = bytearray()
        with self._open("GET", url, _PLAIN) as answer:
            _check_status(answer, url)
            for part in read_parts(answer, url, self._at_most(self.timeouts.page_s)):
                body += part
                if len(body) > limit_bytes:
                    raise NetworkError(f"{clean_text(url)}: larger than {limit_bytes} bytes")
        return bytes(body)

    def file(self, url: str) -> RemoteFile | None:
        """Ask whether a file is there.

        Returns:
            None when the server says that it is not.

        Raises:
            NetworkError: No answer or a strange one, or offline.
        """
        key = strip_credentials(url)
        if self.is_offline:
            raise NetworkError(f"offline: whether {key} exists cannot be asked")
        with self._open("HEAD", url, _PLAIN) as answer:
            if answer.status_code not in _HEADLESS:
                return _described(answer, url, key)
        # An address that was signed for reading may refuse to be asked about.
        with self._open("GET", url, {**_PLAIN, "Range": "bytes=0-0"}) as answer:
            return _described(answer, url, key)

    def sha256(self, file: RemoteFile, url: str) -> str:
        """Compute the digest of a file by downloading it; what was computed before is kept.

        Args:
            file: What the server said about it.
            url: Its address, possibly with credentials.

        Raises:
            NetworkError: The download failed or was cut off.
        """
        known = self.cache.digest(file.url, file.etag) if self.cache and file.etag else None
        if known:
            return known
        digest = self._download(file, url)
        if self.cache and file.etag:
            self.cache.keep_digest(file.url, file.etag, digest)
        return digest

    def remember_digest(self, file: RemoteFile, sha256: str) -> None:
        """Keep the digest that somebody else stated for a file, for when nobody can be asked."""
        if self.cache:
            self.cache.keep_digest(file.url, file.etag, sha256)

    def known_digest(self, url: str) -> str | None:
        """The digest that a file had when it was last asked about; None when it never was."""
        return self.cache.last_digest(strip_credentials(url)) if self.cache else None

    def _download(self, file: RemoteFile, url: str) -> str:
        digest, received = hashlib.sha256(), 0
        with self._open("GET", url, _PLAIN) as answer:
            _check_status(answer, url)
            for part in read_parts(answer, url, self._at_most(self.timeouts.file_s)):
                digest.update(part)
                received += len(part)
        if file.size is not None and received != file.size:
            raise NetworkError(
                f"{file.url}: the download has {received} bytes, {file.size} were announced"
            )
        return digest.hexdigest()

    def _read_body(self, answer: requests.Response, url: str) -> bytes:
        return b"".join(self._bounded(answer, url))

    def _bounded(self, answer: requests.Response, url: str) -> Iterator[bytes]:
        """The parts of a page, unpacked, as long as it is one that can be read."""
        received = 0
        for part in read_parts(answer, url, self._at_most(self.timeouts.page_s)):
            received += len(part)
            if received > MOST_PAGE_BYTES:
                raise HarmfulPageError(
                    f"{clean_text(url)}: the page is larger than {MOST_PAGE_BYTES // 1024**2} MiB"
                )
            yield part

    def _at_most(self, seconds: float) -> float:
        """So many seconds, or what is left of all of them."""
        left = seconds if self._limits is None else min(seconds, self._limits.left_s())
        return max(left, _SHORTEST_S)

    def _open(self, method: str, url: str, headers: Mapping[str, str]) -> requests.Response:
        """Send a request and follow redirects, each to https or on the same server."""
        for _ in range(_MOST_REDIRECTS + 1):
            answer = self._send(method, url, headers)
            if answer.status_code not in _REDIRECTS:
                return answer
            target = urljoin(url, answer.headers.get("Location", ""))
            answer.close()
            if not _is_safe_redirect(url, target):
                raise HarmfulPageError(
                    f"{clean_text(url)} redirects to {clean_text(target)}, which is not https",
                    hint="check the address: what comes over plain http can be anybody's",
                )
            url = target
        raise HarmfulPageError(f"{clean_text(url)}: more than {_MOST_REDIRECTS} redirects")

    def _send(self, method: str, url: str, headers: Mapping[str, str]) -> requests.Response:
        import requests

        if self._session is None:
            self._session = requests.Session()
            self._session.verify = self._authorities or True
        ask = partial(
            self._session.request,
            method,
            url,
            headers={**_HEADERS, **headers},
            timeout=(self._at_most(self.timeouts.connect_s), self._at_most(self.timeouts.read_s)),
            stream=True,
            allow_redirects=False,
        )
        try:
            return begin_answer(ask, url, self._at_most(self.timeouts.page_s))
        except (requests.RequestException, ValueError) as err:
            raise _no_answer(url, err) from err


def _is_safe_redirect(url: str, target: str) -> bool:
    before, after = urlsplit(url), urlsplit(target)
    is_same_server = (before.scheme, before.hostname, before.port) == (
        after.scheme,
        after.hostname,
        after.port,
    )
    return after.scheme == "https" or is_same_server


def _described(answer: requests.Response, url: str, key: str) -> RemoteFile | None:
    """What an answer says about a file; None when it says that there is none."""
    if answer.status_code in ABSENT:
        return None
    if answer.status_code != _PART:
        _check_status(answer, url)
    whole = answer.headers.get("Content-Range", "").rpartition("/")[2]
    size = whole or answer.headers.get("Content-Length", "")
    return RemoteFile(key, int(size) if size.isdecimal() else None, answer.headers.get("ETag", ""))


def _check_status(answer: requests.Response, url: str) -> None:
    if answer.status_code != _OK:
        asked = answer.headers.get("Retry-After", "")
        raise status_error(url, answer.status_code, retry_after=asked)


def _no_answer(url: str, err: Exception) -> NetworkError:
    import requests

    place, hint = clean_text(url), "check the network and the proxy settings, or use --offline"
    if isinstance(err, requests.exceptions.ProxyError):
        if _PROXY_ASKS.search(str(err)):
            return status_error(url, 407)
        return NetworkError(f"{place}: the proxy on the way gives no answer", hint=hint)
    if isinstance(err, requests.exceptions.SSLError):
        said = _CERTIFICATE.search(str(err))
        why = f"its certificate is not accepted: {said[1]}" if said else "it speaks no proper TLS"
        return NetworkError(f"{place}: {why}", hint=TLS_HINT)
    if isinstance(err, requests.ReadTimeout):
        why = f"it does not answer in time ({type(err).__name__})"
        return HarmfulPageError(f"{place}: {why}", hint, is_silence=True)
    why = "it does not answer in time" if isinstance(err, requests.Timeout) else "no answer"
    return NetworkError(f"{place}: {why} ({type(err).__name__})", hint=hint)
