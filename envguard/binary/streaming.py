"""Brings a large member of a wheel, or a whole wheel, from a server to a file in bounded memory."""

from __future__ import annotations

import struct
import zipfile
import zlib
from contextlib import closing, contextmanager
from typing import IO, TYPE_CHECKING

from envguard.binary.remote import HEADERS, TIMEOUT_S, printable
from envguard.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import requests

_BLOCK = 1024 * 1024
_LOCAL = struct.Struct("<4s22xHH")  # magic, ..., length of the name, length of the extra field
_LOCAL_MAGIC = b"PK\3\4"
_RAW_DEFLATE = -15
_OK, _PART = 200, 206
_MOST_BYTES = 8 * 1024**3


def stream_member(
    session: requests.Session,
    url: str,
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    target: IO[bytes],
) -> None:
    """Unpack one member into a file while it arrives, and prove its checksum.

    Args:
        session: For the request.
        url: Where the wheel lies.
        archive: The wheel, whose small reads are made by ranges.
        member: The member.
        target: Open for writing.

    Raises:
        NetworkError: The server does not answer, or not with all of it.
        BadZipFile: It is damaged, or larger than the list of members says.
        NotImplementedError: It is packed in another way than wheels are.
        OSError: The disk does not take it.
    """
    if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        raise NotImplementedError(f"packed by method {member.compress_type}")
    start = _data_start(archive, member)
    written, checksum = 0, 0
    with closing(_get(session, url, member.compress_size, start)) as blocks:
        for data in _unpacked(blocks, member):
            written += len(data)
            if written > member.file_size:
                raise zipfile.BadZipFile(f"more than the {member.file_size} bytes that are stated")
            checksum = zlib.crc32(data, checksum)
            target.write(data)
    target.flush()
    if written != member.file_size or checksum != member.CRC:
        raise zipfile.BadZipFile("its checksum is not the one that is stated")


def _data_start(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """Where the member's bytes begin: its local header's lengths are its own."""
    file = archive.fp
    assert file is not None  # noqa: S101 - the archive is open
    file.seek(member.header_offset)
    head = file.read(_LOCAL.size)
    if len(head) != _LOCAL.size or not head.startswith(_LOCAL_MAGIC):
        raise zipfile.BadZipFile("no header where the list of members says")
    _, name, extra = _LOCAL.unpack(head)
    return int(member.header_offset + _LOCAL.size + name + extra)


def _unpacked(blocks: Iterator[bytes], member: zipfile.ZipInfo) -> Iterator[bytes]:
    if member.compress_type == zipfile.ZIP_STORED:
        yield from blocks
        return
    stream = zlib.decompressobj(_RAW_DEFLATE)
    for block in blocks:
        data = block
        while data and not stream.eof:
            yield stream.decompress(data, _BLOCK)  # never more than a block, whatever it expands to
            data = stream.unconsumed_tail
    yield stream.flush()


def download(session: requests.Session, url: str, target: IO[bytes]) -> None:
    """Bring a whole file.

    Args:
        session: For the request.
        url: Where it lies.
        target: Open for writing.

    Raises:
        NetworkError: The server does not answer, or not with all of it; or the disk is full.
    """
    try:
        for block in _get(session, url):
            target.write(block)
        target.flush()
    except OSError as err:
        raise NetworkError(f"{printable(url)}: cannot be kept: {err.strerror or err}") from err


def _get(
    session: requests.Session, url: str, size: int | None = None, start: int = 0
) -> Generator[bytes]:
    """The blocks of a file, or of ``size`` bytes of it."""
    headers = dict(HEADERS)
    if size is not None:
        headers["Range"] = f"bytes={start}-{start + size - 1}"
    with (
        _named(url),
        session.get(url, headers=headers, timeout=TIMEOUT_S, stream=True) as answer,
    ):
        _check(answer, url, size, start)
        received = 0
        stated = size if size is not None else _stated_size(answer)
        for block in answer.iter_content(_BLOCK):
            received += len(block)
            if received > (_MOST_BYTES if stated is None else stated):
                raise NetworkError(f"{printable(url)}: the server sends more than it was asked")
            yield block
        if stated is not None and received != stated:
            raise NetworkError(
                f"{printable(url)}: the answer was cut off after {received} of {stated} bytes"
            )


def _check(answer: requests.Response, url: str, size: int | None, start: int) -> None:
    if answer.status_code != (_OK if size is None else _PART):
        raise NetworkError(f"{printable(url)}: the server answered {answer.status_code}")
    if size is not None:
        begins = f"bytes {start}-{start + size - 1}/"
        if not answer.headers.get("Content-Range", "").startswith(begins):
            raise NetworkError(f"{printable(url)}: the server sent another part than asked for")


def _stated_size(answer: requests.Response) -> int | None:
    text = answer.headers.get("Content-Length", "")
    return int(text) if text.isascii() and text.isdigit() else None


@contextmanager
def _named(url: str) -> Iterator[None]:
    """Turn what requests raises into an error that names the address."""
    import requests

    try:
        yield
    except requests.exceptions.ChunkedEncodingError as err:
        raise NetworkError(f"{printable(url)}: the answer was cut off") from err
    except requests.RequestException as err:
        raise NetworkError(f"{printable(url)}: no answer ({type(err).__name__})") from err
