"""A wheel on a server, read in parts: its list of members and its metadata, no compiled file."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from envguard.binary.wheel import MEGABYTE, compiled_members
from envguard.errors import NetworkError
from envguard.facts.binary import CompiledFile
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.sentences import say
from envguard.redaction import clean_addresses
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    import requests

PROBE = "http"
TIMEOUT_S = (10, 60)
_BLOCK = 256 * 1024
_MOST_BYTES = 64 * MEGABYTE
_MOST_REDIRECTS = 5
_WHOLE, _PART = 200, 206
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
HEADERS = {"Accept-Encoding": "identity", "User-Agent": "envguard"}


class NoRangesError(NetworkError):
    """A server sends whole files only."""


@dataclass(frozen=True, slots=True)
class RemoteWheel:
    """What a server told about a wheel.

    Args:
        files: Its compiled files, none of them read.
        notes: What its metadata say, and what a full reading would take.
    """

    files: tuple[CompiledFile, ...]
    notes: tuple[str, ...]


def read_remote_wheel(url: str) -> RemoteWheel:
    """Read the member list and metadata of a wheel by HTTP range requests.

    Args:
        url: ``http`` or ``https``.

    Raises:
        NetworkError: No answer, no range requests, or no wheel there.
    """
    import requests

    with requests.Session() as session:
        session.max_redirects = _MOST_REDIRECTS
        file = RangeFile(session, url)
        with not_a_wheel(url), zipfile.ZipFile(file) as archive:
            return _describe(archive, file)


def read_remote_metadata(url: str) -> str:
    """Read only the METADATA of a wheel, by HTTP range requests.

    Args:
        url: ``http`` or ``https``.

    Returns:
        The text; empty where the wheel holds none.

    Raises:
        NetworkError: No answer, no range requests, or no wheel there.
    """
    import requests

    with requests.Session() as session:
        session.max_redirects = _MOST_REDIRECTS
        file = RangeFile(session, url)
        with not_a_wheel(url), zipfile.ZipFile(file) as archive:
            return _text(archive, "METADATA")


@contextmanager
def not_a_wheel(url: str) -> Iterator[None]:
    """Turn what zipfile raises into an error that names the address."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, ValueError, EOFError) as err:
        raise NetworkError(f"{printable(url)}: not a readable wheel: {err}") from err


def _describe(archive: zipfile.ZipFile, file: RangeFile) -> RemoteWheel:
    members = compiled_members(archive)
    total = sum(member.compress_size for member in members)
    metadata = _text(archive, "METADATA")
    head = " ".join(_fields(metadata, "Name")[:1] + _fields(metadata, "Version")[:1])
    tags = ", ".join(_fields(_text(archive, "WHEEL"), "Tag"))
    needs = [line.partition(";")[0].strip() for line in _fields(metadata, "Requires-Dist")]
    cuda = [need for need in needs if re.match(r"nvidia-|cuda-|triton|torch\b", need)]
    notes = (
        say(
            "{package} ({tags}), {size}",
            package=head or "no name in its metadata",
            tags=tags or "no tag",
            size=_megabytes(file.size),
        ),
        say("requires {libraries}", libraries=", ".join(cuda))
        if cuda
        else "requires no NVIDIA package",
        say(
            "reading its {file_count} compiled files would take {total} of download; "
            "{fetched} were fetched",
            file_count=len(members),
            total=_megabytes(total),
            fetched=_megabytes(file.fetched),
        ),
    )
    return RemoteWheel(tuple(_unread(member) for member in members), notes)


def _unread(member: zipfile.ZipInfo) -> CompiledFile:
    detail = say(
        "{size} of the wheel would have to be downloaded; unpacked it is {unpacked_size}",
        size=_megabytes(member.compress_size),
        unpacked_size=_megabytes(member.file_size),
    )
    return CompiledFile(member.filename, gaps=(Gap("file", GapReason.NOT_ASKED, PROBE, detail),))


def _text(archive: zipfile.ZipFile, name: str) -> str:
    """A file of the ``.dist-info`` folder, or nothing."""
    for member in archive.infolist():
        folder, _, base = member.filename.rpartition("/")
        if base == name and folder.endswith(".dist-info") and member.file_size < _MOST_BYTES:
            with archive.open(member) as stream:
                return stream.read(MEGABYTE).decode("utf-8", "replace")
    return ""


def _fields(text: str, name: str) -> list[str]:
    """The values of a header field."""
    head = text.partition("\n\n")[0]
    return [m.strip() for m in re.findall(rf"^{name}:(.*)$", head, re.M | re.I)]


def _megabytes(size: int) -> str:
    return f"{size / MEGABYTE:.1f} MiB"


def printable(url: str) -> str:
    """A URL without user, password and query, which may carry secrets."""
    return clean_addresses(url).partition("#")[0].partition("?")[0]


class RangeFile(io.RawIOBase):
    """A file on a server, each part fetched when it is read.

    Args:
        session: For the requests.
        url: Where the file lies.

    Raises:
        NetworkError: The server does not answer, or not with a part of the file.
    """

    def __init__(self, session: requests.Session, url: str) -> None:
        super().__init__()
        self._session, self._url = session, url
        self._place, self.fetched, self.size = 0, 0, 0
        self._start, self._data = 0, b""
        self._fetch(f"bytes=-{_BLOCK}")  # the member list stands at the end

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move; nothing is fetched."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self.size}[whence]
        self._place = max(0, base + offset)
        return self._place

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # narrower than Buffer
        """Fill a buffer with what follows."""
        wanted = min(len(buffer), max(0, self.size - self._place))
        if not wanted:
            return 0
        start = self._place - self._start
        if not 0 <= start < len(self._data):
            stop = min(self.size, self._place + max(wanted, _BLOCK)) - 1
            self._fetch(f"bytes={self._place}-{stop}")
            start = self._place - self._start
        part = self._data[start : start + wanted]
        buffer[: len(part)] = part
        self._place += len(part)
        return len(part)

    def _fetch(self, wanted: str) -> None:
        import requests

        try:
            with self._session.get(
                self._url, headers={**HEADERS, "Range": wanted}, timeout=TIMEOUT_S, stream=True
            ) as answer:
                match = self._check(answer)
                self._start, last, self.size = (int(number) for number in match.groups())
                self._data = self._body(answer, last - self._start + 1)
        except requests.RequestException as err:
            words = type(err).__name__
            raise NetworkError(f"{printable(self._url)}: no answer ({words})") from err

    def _check(self, answer: requests.Response) -> re.Match[str]:
        where = printable(self._url)
        if answer.status_code == _WHOLE:
            raise NoRangesError(
                f"{where}: the server does not send parts of files",
                hint="download the wheel and inspect the file",
            )
        match = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if answer.status_code != _PART or match is None:
            raise NetworkError(f"{where}: the server answered {answer.status_code}")
        return match

    def _body(self, answer: requests.Response, size: int) -> bytes:
        import requests

        self.fetched += size
        if size < 0 or self.fetched > _MOST_BYTES:
            raise NetworkError(f"{printable(self._url)}: more than {_megabytes(_MOST_BYTES)} asked")
        data = bytearray()
        try:
            for block in answer.iter_content(_BLOCK):
                data += block
                if len(data) > size:
                    break
        except requests.exceptions.ChunkedEncodingError as err:
            raise NetworkError(f"{printable(self._url)}: the answer was cut off") from err
        if len(data) != size:
            raise NetworkError(f"{printable(self._url)}: the answer was cut off")
        return bytes(data)
