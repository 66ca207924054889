"""An append-only file that never grows past a limit: its beginning and its end are kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from envguard.crash.private_folder import write_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from envguard.crash.private_folder import PrivateFolder


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
