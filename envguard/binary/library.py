"""Shared library files as the static link check needs them, each read once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from envguard.binary.dynamic import Dynamic, read_dynamic
from envguard.binary.elf import Image
from envguard.binary.fatbin import SECTIONS
from envguard.binary.source import FileSource, UnreadableError
from envguard.binary.symbols import SymbolTable

if TYPE_CHECKING:
    from collections.abc import Iterable

Identity = tuple[int, int]  # device and inode, by which the loader knows a file


class Library:
    """One shared library file: its dynamic table at once, its symbols when asked for.

    Args:
        path: Where it lies.

    Attributes:
        machine: The processor that it is for.
        dynamic: What it asks of the loader.
        has_init: Python can import it: it defines ``PyInit_`` and its own name.
        has_gpu_code: It has a section for such code, or headers that do not tell.

    Raises:
        UnreadableError: It is no ELF file that can be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with FileSource(path) as source:
            image = Image(source)
            self.machine = image.machine
            self.dynamic: Dynamic = read_dynamic(image)
            self.has_init: bool = _has_init(image, path)
            self.has_gpu_code: bool = _has_gpu_code(image)
        self._open: tuple[FileSource, Image, SymbolTable] | None = None

    def image(self) -> Image:
        """The file, kept open until :meth:`close`."""
        return self._opened()[1]

    def symbols(self) -> SymbolTable:
        """Its dynamic symbols."""
        return self._opened()[2]

    def _opened(self) -> tuple[FileSource, Image, SymbolTable]:
        if self._open is None:
            source = FileSource(self.path)
            image = Image(source)
            self._open = (source, image, SymbolTable(image))
        return self._open

    def close(self) -> None:
        """Close the file."""
        if self._open is not None:
            self._open[0].close()
            self._open = None


def _has_init(image: Image, path: str) -> bool:
    """Whether Python can import the file: it defines the function that its name asks for."""
    base = path.rpartition("/")[2]
    if not base.endswith(".so"):
        return False
    stem = base.partition(".")[0]
    try:
        return SymbolTable(image).offers(b"PyInit_" + os.fsencode(stem))
    except UnreadableError:
        return False


def _has_gpu_code(image: Image) -> bool:
    try:
        return bool(image.sections(*SECTIONS))
    except UnreadableError:
        return True


class Libraries:
    """Every library that was looked at, and every folder that was looked into."""

    def __init__(self) -> None:
        self._known: dict[Identity, Library | UnreadableError] = {}
        self._paths: dict[str, Identity | None] = {}

    def identity(self, path: str) -> Identity | None:
        """The file at a path; None when there is none."""
        if path not in self._paths:
            try:
                found = os.stat(path)  # noqa: PTH116 - a text that is not normalised
                self._paths[path] = (found.st_dev, found.st_ino)
            except (OSError, ValueError):
                self._paths[path] = None
        return self._paths[path]

    def get(self, path: str) -> Library | UnreadableError | None:
        """The library at a path, or why it cannot be used; None when there is no file."""
        identity = self.identity(path)
        if identity is None:
            return None
        if identity not in self._known:
            try:
                self._known[identity] = Library(path)
            except UnreadableError as err:
                self._known[identity] = err
        return self._known[identity]

    @property
    def asked(self) -> Iterable[str]:
        """Every path that was asked for, found or not; the answer depends on these."""
        return self._paths.keys()

    def close(self) -> None:
        """Close every file."""
        for library in self._known.values():
            if isinstance(library, Library):
                library.close()
