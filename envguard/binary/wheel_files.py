"""A wheel's texts and compiled files, one at a time, from a disk or from a server."""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from envguard.binary.compiled import read_compiled
from envguard.binary.remote import NoRangesError, RangeFile, not_a_wheel
from envguard.binary.source import FileSource, UnreadableError, unreadable
from envguard.binary.streaming import download, stream_member
from envguard.binary.wheel import BROKEN, MEGABYTE, left_alone, read_member, reason_to_leave
from envguard.facts.sentences import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    import requests

    from envguard.facts.binary import CompiledFile

_SMALL = MEGABYTE
_MOST_TEXT = 16 * MEGABYTE


class WheelFiles(Protocol):
    """A wheel that is open."""

    name: str

    def members(self) -> list[zipfile.ZipInfo]:
        """Its members, in the archive's order."""

    def text(self, member: zipfile.ZipInfo) -> str:
        """A small text.

        Raises:
            NetworkError: The server does not give it.
            UnreadableError: It is damaged or no small text.
        """

    def compiled(self, member: zipfile.ZipInfo) -> CompiledFile:
        """A compiled file; what is damaged in the wheel becomes a gap.

        Raises:
            NetworkError: The server does not give it.
        """


@contextmanager
def open_wheel(address: str) -> Iterator[WheelFiles]:
    """Open a wheel for reading; a server that sends no parts is asked for the whole file.

    Args:
        address: A path, or a URL of ``http``, ``https`` or ``file``.

    Raises:
        NetworkError: The server does not answer, or has no wheel there.
        UnreadableError: The file is no wheel that can be read.
    """
    with ExitStack() as stack:
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"}:
            path = unquote(parts.path) if parts.scheme == "file" else address
            yield stack.enter_context(_on_disk(path, os.path.basename(path)))  # noqa: PTH119 - a text path
            return
        import requests

        session = stack.enter_context(requests.Session())
        name = unquote(parts.path.rpartition("/")[2])
        try:
            file = RangeFile(session, address)
        except NoRangesError:
            handle = stack.enter_context(tempfile.NamedTemporaryFile(prefix="envguard-"))
            download(session, address, handle)
            yield stack.enter_context(_on_disk(handle.name, name))
            return
        with not_a_wheel(address):
            archive = stack.enter_context(zipfile.ZipFile(file))
        yield _OnServer(name, archive, session, address)


@contextmanager
def _on_disk(path: str, name: str) -> Iterator[_OnDisk]:
    FileSource(path).close()  # names a FIFO or a device before zipfile waits for it
    try:
        archive = zipfile.ZipFile(path)
    except OSError as err:
        raise unreadable(err) from err
    except BROKEN as err:
        raise UnreadableError(f"not a readable wheel: {err}") from err
    with archive:
        yield _OnDisk(name, archive)


class _OnDisk:
    """A wheel that is a file here."""

    def __init__(self, name: str, archive: zipfile.ZipFile) -> None:
        self.name, self._archive = name, archive

    def members(self) -> list[zipfile.ZipInfo]:
        return self._archive.infolist()

    def text(self, member: zipfile.ZipInfo) -> str:
        return _text(self._archive, member)

    def compiled(self, member: zipfile.ZipInfo) -> CompiledFile:
        return read_member(self._archive, member)


class _OnServer(_OnDisk):
    """A wheel on a server: a large member comes in one request and passes through a file."""

    def __init__(
        self, name: str, archive: zipfile.ZipFile, session: requests.Session, url: str
    ) -> None:
        super().__init__(name, archive)
        self._session, self._url = session, url

    def compiled(self, member: zipfile.ZipInfo) -> CompiledFile:
        reason = reason_to_leave(member)
        if reason:
            return left_alone(member, reason)
        if member.compress_size <= _SMALL:
            return read_member(self._archive, member)
        with tempfile.TemporaryFile(prefix="envguard-") as file:
            try:
                stream_member(self._session, self._url, self._archive, member, file)
            except BROKEN as err:
                return left_alone(member, say("damaged: {error}", error=err))
            except OSError as err:
                return left_alone(
                    member, say("cannot be unpacked: {reason}", reason=err.strerror or err)
                )
            with FileSource("", os.dup(file.fileno())) as source:
                return read_compiled(source, member.filename)


def _text(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> str:
    if member.file_size > _MOST_TEXT:
        raise UnreadableError(f"{member.filename}: {member.file_size} bytes of text")
    try:
        with archive.open(member) as stream:
            return stream.read(_MOST_TEXT).decode("utf-8", "replace")
    except (*BROKEN, zlib.error) as err:
        raise UnreadableError(f"{member.filename}: damaged: {err}") from err
