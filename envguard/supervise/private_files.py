"""Files of a record: private to their owner, and bounded: their beginning and end are kept."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

from envguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_HAS_HANDLES = os.open in os.supports_dir_fd and os.rename in os.supports_dir_fd
_FILE, _FOLDER = 0o600, 0o700


class PrivateFolder:
    """A folder made here, or one that is there and ours.

    Args:
        path: Of the folder.
        is_new: Make it; it must not be there.

    Raises:
        OSError: It cannot be made or opened.
        InputError: It is not ours: somebody else put another in its place.
    """

    def __init__(self, path: Path, *, is_new: bool = True) -> None:
        self.path = path
        self._handle: int | None = None
        if is_new:
            path.mkdir(mode=_FOLDER)
        if _HAS_HANDLES:
            self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            if os.fstat(self._handle).st_uid != os.geteuid():
                raise InputError(f"{path}: was replaced by another user")
            if is_new:
                os.fchmod(self._handle, _FOLDER)  # whatever the umask

    def open(self, name: str, flags: int) -> int:
        """Make and open a file for writing; neither a link nor a file that is there is taken."""
        flags |= os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        if self._handle is None:
            return os.open(self.path / name, flags | getattr(os, "O_BINARY", 0), _FILE)
        handle = os.open(name, flags, _FILE, dir_fd=self._handle)
        os.fchmod(handle, _FILE)
        return handle

    def write(self, name: str, text: str) -> None:
        """Write a whole file in one step: a reader sees all of it, or none."""
        unfinished = f".{name}.unfinished"
        self.remove(unfinished)
        handle = self.open(unfinished, os.O_WRONLY)
        try:
            write_all(handle, text.encode("utf-8", "replace"))
        except OSError:
            self.remove(unfinished)
            raise
        finally:
            os.close(handle)
        if self._handle is None:
            (self.path / unfinished).replace(self.path / name)
        else:
            os.rename(unfinished, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            if self._handle is None:
                (self.path / name).unlink()
            else:
                os.unlink(name, dir_fd=self._handle)

    def close(self) -> None:
        """Give the handle back."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def write_all(handle: int, data: bytes | memoryview) -> None:
    """Write everything: a disk that is almost full takes a part at first.

    Raises:
        OSError: The disk does not take it.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def refuse_planted_links(path: Path) -> None:
    """Follow no link that somebody put into a folder of others.

    The kernel's own rule for sticky folders (``fs.protected_symlinks``), here for all: a link is
    good when it is ours, root's, or of the owner of the folder that it lies in.

    Raises:
        InputError: A part of the path is such a link.
    """
    if not _HAS_HANDLES:
        return
    for part in (path, *path.parents):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            link = part.lstat()
            trusted = {0, os.geteuid(), part.parent.stat().st_uid}
            if stat.S_ISLNK(link.st_mode) and link.st_uid not in trusted:
                raise InputError(f"{part}: is a link of another user")


class RingFile:
    """Writes ``stem.0`` once, then ``stem.1``, ``stem.2`` ... of which the last two are kept.

    Every write goes straight to the kernel, so that a killed writer loses nothing it wrote.

    Args:
        folder: Where the parts lie.
        stem: Name of the parts before their number.
        part_bytes: Size of one part.

    Raises:
        OSError: From here and every method: the disk does not take it.
    """

    def __init__(self, folder: PrivateFolder, stem: str, part_bytes: int) -> None:
        self._folder = folder
        self._stem = stem
        self._limit = part_bytes
        self._number = 0
        self._size = 0
        self._handle: int | None = self._open()

    def _open(self) -> int:
        return self._folder.open(f"{self._stem}.{self._number}", os.O_WRONLY | os.O_APPEND)

    def write(self, data: bytes) -> None:
        """Append; a part is closed when it is full."""
        view = memoryview(data)
        while view:
            piece = view[: self._limit - self._size]
            self._put(piece)
            view = view[len(piece) :]
            if self._size >= self._limit:
                self._next()

    def write_line(self, text: str) -> None:
        """Append a line that stays whole within one part."""
        data = text.encode() + b"\n"
        if self._size and self._size + len(data) > self._limit:
            self._next()
        self._put(data)

    def _put(self, data: bytes | memoryview) -> None:
        if self._handle is None:  # the part before was full, and the disk took no other
            self._handle = self._open()
        write_all(self._handle, data)
        self._size += len(data)

    def _next(self) -> None:
        self.close()
        self._number += 1
        self._size = 0
        if self._number > 2:
            self._folder.remove(f"{self._stem}.{self._number - 2}")
        self._handle = self._open()

    def close(self) -> None:
        """Close the part that is open."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def ring_parts(folder: Path, stem: str) -> Iterator[Path]:
    """The parts that are there, in the order they were written; no pipe or device among them."""
    numbered = [
        (int(path.suffix[1:]), path)
        for path in folder.glob(f"{stem}.*")
        if path.suffix[1:].isdecimal() and len(path.suffix) < 10 and path.is_file()
    ]
    for _, path in sorted(numbered):
        yield path
