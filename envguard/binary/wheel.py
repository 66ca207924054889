"""Compiled files inside a wheel, one at a time: nothing else of it is unpacked.

A member that is not large is decompressed in memory, a large one into a temporary file that is
gone before the next one is read. What expands beyond any real library is left alone.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING

from envguard.binary.compiled import PROBE, read_compiled
from envguard.binary.folders import is_compiled, is_foreign
from envguard.binary.source import FileSource, MemorySource, UnreadableError, unreadable
from envguard.facts.binary import CompiledFile
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.sentences import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.binary.source import ByteSource

MEGABYTE = 1024 * 1024
_IN_MEMORY = 16 * MEGABYTE
_BLOCK = MEGABYTE
_MOST_EXPANSION, _FREE_EXPANSION = 200, 64 * MEGABYTE  # compiled code shrinks two- to twentyfold
_MOST_EXPANSION_IN_ALL, _FREE_IN_ALL = 50, 1024 * MEGABYTE
_ENCRYPTED = 0x1
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, RuntimeError)


def read_wheel(path: str) -> Iterator[CompiledFile]:
    """What the compiled files of a wheel hold, sorted by name.

    Raises:
        UnreadableError: It is no wheel that can be read at all.
    """
    with ExitStack() as stack:
        archive = stack.enter_context(_opened(path))
        left = _FREE_IN_ALL + _MOST_EXPANSION_IN_ALL * os.path.getsize(path)  # noqa: PTH202 - a text path
        for member in compiled_members(archive):
            left -= member.file_size
            if left < 0:
                yield left_alone(member, "the wheel expands beyond what wheels do")
            else:
                yield read_member(archive, member)


def _opened(path: str) -> zipfile.ZipFile:
    FileSource(path).close()  # names a FIFO or a device before zipfile waits for it
    try:
        return zipfile.ZipFile(path)
    except OSError as err:
        raise unreadable(err) from err
    except BROKEN as err:
        raise UnreadableError(f"not a readable wheel: {err}") from err


def compiled_members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The members whose name says that they are compiled, sorted by name."""
    members = (m for m in archive.infolist() if is_compiled(m.filename, with_foreign=True))
    return sorted(members, key=lambda member: member.filename)


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> CompiledFile:
    """What one member holds; what is damaged becomes a gap."""
    reason = reason_to_leave(member)
    if reason:
        return left_alone(member, reason)
    try:
        with archive.open(member) as stream, ExitStack() as stack:
            return read_compiled(_source(stream, member.file_size, stack), member.filename)
    except OSError as err:
        return left_alone(member, say("cannot be unpacked: {reason}", reason=err.strerror or err))
    except BROKEN as err:
        return left_alone(member, say("damaged: {error}", error=err))


def reason_to_leave(member: zipfile.ZipInfo) -> str:
    """Why a member is not unpacked at all; empty when it is."""
    if is_foreign(member.filename):
        return "a module of Windows or macOS, which envguard does not read"
    if member.flag_bits & _ENCRYPTED:
        return "encrypted"
    if member.file_size > _FREE_EXPANSION + _MOST_EXPANSION * member.compress_size:
        times = member.file_size // max(member.compress_size, 1)
        return say(
            "expands {times}-fold to {size} bytes, as no compiled code does",
            times=times,
            size=member.file_size,
        )
    return ""


def _source(stream: IO[bytes], size: int, stack: ExitStack) -> ByteSource:
    if size <= _IN_MEMORY:
        return MemorySource(stream.read(size + 1))
    file = stack.enter_context(tempfile.TemporaryFile(prefix="envguard-"))  # noqa: SIM115 - the stack closes it
    for _ in range(size // _BLOCK + 2):
        block = stream.read(_BLOCK)
        if not block:
            break
        file.write(block)
    file.flush()
    return stack.enter_context(FileSource("", os.dup(file.fileno())))


def left_alone(member: zipfile.ZipInfo, why: str) -> CompiledFile:
    """A member that was not read."""
    return CompiledFile(member.filename, gaps=(Gap("file", GapReason.UNREADABLE, PROBE, why),))
