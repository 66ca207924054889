"""An append-only file that never grows past a limit: its beginning and its end are kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class RingFile:
    """Writes ``stem.0`` once, then ``stem.1``, ``stem.2`` ... of which the last two are kept.

    Every write goes straight to the kernel, so that a killed writer loses nothing it wrote.

    Args:
        folder: Where the parts lie.
        stem: Name of the parts before their number.
        part_bytes: Size of one part.
    """

    def __init__(self, folder: Path, stem: str, part_bytes: int) -> None:
        self._folder = folder
        self._stem = stem
        self._limit = part_bytes
        self._number = 0
        self._size = 0
        self._handle = self._open()

    def _open(self) -> int:
        path = self._folder / f"{self._stem}.{self._number}"
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> None:
        """Append; a part is closed when it is full."""
        view = memoryview(data)
        while view:
            room = self._limit - self._size
            piece = view[:room]
            os.write(self._handle, piece)
            self._size += len(piece)
            view = view[len(piece) :]
            if self._size >= self._limit:
                self._next()

    def write_line(self, text: str) -> None:
        """Append a line that stays whole within one part."""
        data = text.encode() + b"\n"
        if self._size and self._size + len(data) > self._limit:
            self._next()
        os.write(self._handle, data)
        self._size += len(data)

    def _next(self) -> None:
        os.close(self._handle)
        self._number += 1
        self._size = 0
        if self._number > 2:
            (self._folder / f"{self._stem}.{self._number - 2}").unlink(missing_ok=True)
        self._handle = self._open()

    def close(self) -> None:
        """Close the part that is open."""
        os.close(self._handle)


def ring_parts(folder: Path, stem: str) -> Iterator[Path]:
    """The parts that are there, in the order they were written."""
    numbered = [
        (int(path.suffix[1:]), path)
        for path in folder.glob(f"{stem}.*")
        if path.suffix[1:].isdecimal()
    ]
    for _, path in sorted(numbered):
        yield path
