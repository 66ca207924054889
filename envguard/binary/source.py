"""Bytes of a file or a wheel member at an offset, never more than asked for.

Files are read with ``pread``, not mapped: on a network or failing disk a mapped page that
cannot be read kills the process with SIGBUS, where ``pread`` gives an error that becomes a gap.
For headers spread over a large file it is also the faster of the two.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Protocol, Self

from envguard.errors import InputError
from envguard.facts.gaps import GapReason

if TYPE_CHECKING:
    from types import TracebackType

_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)  # opening a FIFO must not wait for a writer
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
_SMALL, _WINDOW = 256, 1024
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class UnreadableError(InputError):
    """A compiled file cannot be read, or does not have the shape that its headers promise.

    Args:
        message: What is wrong, without the file's name.
        reason: What becomes of it in a gap.
    """

    def __init__(self, message: str, reason: GapReason = GapReason.UNREADABLE) -> None:
        super().__init__(message)
        self.reason = reason


class ByteSource(Protocol):
    """Something with a size that can be read at an offset."""

    @property
    def size(self) -> int:
        """Its bytes."""

    def read(self, offset: int, size: int) -> bytes:
        """Exactly ``size`` bytes from ``offset``.

        Raises:
            UnreadableError: They reach beyond the end, or the disk does not give them.
        """

    def read_upto(self, offset: int, size: int) -> bytes:
        """As many of ``size`` bytes from ``offset`` as there are.

        Raises:
            UnreadableError: The disk does not give them.
        """


class MemorySource:
    """Bytes that are in memory already, such as a small wheel member."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self._content)

    def read(self, offset: int, size: int) -> bytes:
        """Exactly ``size`` bytes from ``offset``; see :class:`ByteSource`."""
        return _exactly(self.read_upto(offset, size), offset, size)

    def read_upto(self, offset: int, size: int) -> bytes:
        """At most ``size`` bytes from ``offset``."""
        return self._content[offset : offset + size] if offset >= 0 else b""


class FileSource:
    """A regular file, open while the ``with`` block lasts.

    Args:
        path: Links are followed.
        handle: A descriptor to read from instead of opening the path; it is closed in the end.

    Raises:
        UnreadableError: It is missing, forbidden, or no regular file.
    """

    def __init__(self, path: str, handle: int | None = None) -> None:
        try:
            self._handle = os.open(path, _OPEN_FLAGS) if handle is None else handle
        except (OSError, ValueError) as err:
            raise unreadable(err) from err
        found = os.fstat(self._handle)
        if not stat.S_ISREG(found.st_mode):
            os.close(self._handle)
            raise UnreadableError(f"not a regular file but {_kind_of(found.st_mode)}")
        self._size = found.st_size
        self._window, self._window_at = b"", 0

    @property
    def size(self) -> int:
        """Size when it was opened."""
        return self._size

    def read(self, offset: int, size: int) -> bytes:
        """Exactly ``size`` bytes from ``offset``; see :class:`ByteSource`."""
        return _exactly(self.read_upto(offset, size), offset, size)

    def read_upto(self, offset: int, size: int) -> bytes:
        """At most ``size`` bytes from ``offset``; neighbours come with a small read."""
        start = offset - self._window_at
        if start >= 0 and start + size <= len(self._window):
            return self._window[start : start + size]
        if not 0 <= offset < self._size or size > _SMALL:
            return self._read(offset, size)
        self._window, self._window_at = self._read(offset, _WINDOW), offset
        return self._window[:size]

    def _read(self, offset: int, size: int) -> bytes:
        if not 0 <= offset < self._size:
            return b""
        try:
            return _read_at(self._handle, min(size, self._size - offset), offset)
        except OSError as err:
            raise unreadable(err) from err

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _read_at(handle: int, size: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(handle, size, offset)
    os.lseek(handle, offset, os.SEEK_SET)  # Windows
    return os.read(handle, size)


def _exactly(data: bytes, offset: int, size: int) -> bytes:
    if len(data) != size or size < 0:
        raise UnreadableError(
            f"truncated: {size} bytes are said to be at {offset:#x}, {len(data)} are"
        )
    return data


def _kind_of(mode: int) -> str:
    return next((words for is_kind, words in _KINDS if is_kind(mode)), "a special file")


def unreadable(err: OSError | ValueError) -> UnreadableError:
    """Why a file could not be opened or read, as this package's error."""
    if isinstance(err, FileNotFoundError | NotADirectoryError):
        return UnreadableError("does not exist", GapReason.ABSENT)
    if isinstance(err, PermissionError):
        return UnreadableError("permission denied", GapReason.FORBIDDEN)
    words = err.strerror if isinstance(err, OSError) else None
    return UnreadableError(f"cannot be read: {words or err}")
