"""Dynamic symbols of an ELF file: what it lacks, and whether it offers a name.

A name is looked up through the hash table that the loader uses; the symbols of a large library
are never walked.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from envguard.binary import elf
from envguard.binary.dynamic import defined_versions
from envguard.binary.hashes import GnuHash, SysvHash
from envguard.binary.source import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.binary.elf import Image

_SYMBOL = struct.Struct("<IBBHQQ")
_HALF = struct.Struct("<H")
_MOST_SYMBOLS = 500_000
_MOST_NAME_BYTES = 32 * 1024 * 1024

_GLOBAL, _WEAK, _UNIQUE = 1, 2, 10
_SEEN_OUTSIDE = {_GLOBAL, _WEAK, _UNIQUE}
_VISIBLE = {0, 3}  # default, protected
_ABSOLUTE, _THREAD_LOCAL = 0xFFF1, 6
_HIDDEN_VERSION, _VERSION_INDEX, _UNVERSIONED = 0x8000, 0x7FFF, 1


class Symbol(NamedTuple):
    """A symbol that a file expects others to define.

    Args:
        place: Its index in the symbol table.
        name: Mangled, as in the file.
        is_weak: It may be missing.
        version: Index of the version asked for; 0 or 1 when none is.
    """

    place: int
    name: bytes
    is_weak: bool
    version: int


class SymbolTable:
    """The dynamic symbols of one file.

    Args:
        image: The file.

    Raises:
        UnreadableError: Its tables lie outside the file.
    """

    def __init__(self, image: Image) -> None:
        self._image = image
        self._read = image.source.read
        self._symbols_at = _place(image, elf.DT_SYMTAB)
        self._versions_at = _place(image, elf.DT_VERSYM)
        self._hash = _hash_of(image)
        self._name = image.raw_string
        self._defined: dict[int, str] | None = None

    @property
    def can_look_up(self) -> bool:
        """Whether the file has a hash table; without one nothing can be said to be missing."""
        return self._hash is not None and self._symbols_at is not None

    def offers(self, name: bytes, version: str | None = None) -> bool:
        """Whether another file's reference would bind to a symbol of this one.

        Args:
            name: Mangled name.
            version: The version asked for.

        Raises:
            UnreadableError: The tables are broken.
        """
        if self._hash is None or self._symbols_at is None:
            return False
        return any(
            self._is_named(self._symbols_at + index * _SYMBOL.size, name)
            and self._fits(index, version)
            for index in self._hash.candidates(name)
        )

    def _is_named(self, place: int, name: bytes) -> bool:
        at, info, other, section, value, _ = _SYMBOL.unpack(self._read(place, _SYMBOL.size))
        is_set = value or section == _ABSOLUTE or info & 15 == _THREAD_LOCAL
        if not section or not is_set or info >> 4 not in _SEEN_OUTSIDE:
            return False
        return other & 3 in _VISIBLE and self._name(at) == name

    def _fits(self, index: int, version: str | None) -> bool:
        """Whether a definition's version serves a reference (``check_match`` of the loader)."""
        if self._versions_at is None:
            return True
        mark = _HALF.unpack(self._read(self._versions_at + index * 2, 2))[0]
        is_hidden = bool(mark & _HIDDEN_VERSION)
        if version is None or mark & _VERSION_INDEX <= _UNVERSIONED:
            return not is_hidden
        if self._defined is None:
            self._defined = defined_versions(self._image) or {}
        return self._defined.get(mark & _VERSION_INDEX) == version

    def undefined(self) -> Iterator[Symbol]:
        """The symbols that others have to define, in table order.

        Raises:
            UnreadableError: The tables are broken, or too large for any real library.
        """
        count = self._undefined_count()
        marks = self._marks(count)
        left = _MOST_NAME_BYTES
        for index, (at, info, _, section, _, _) in self._entries(count):
            if not section and at and info >> 4 in _SEEN_OUTSIDE:
                mark = _HALF.unpack_from(marks, index * 2)[0] if marks else 0
                name = self._name(at)
                left -= len(name)
                if left < 0:  # overlapping names make a small file endless
                    raise UnreadableError(f"more than {_MOST_NAME_BYTES} bytes of names")
                yield Symbol(index, name, info >> 4 == _WEAK, mark & _VERSION_INDEX)

    def defined_names(self, most: int) -> Iterator[bytes]:
        """The names that the file defines; a walk, for small files.

        Args:
            most: Symbols to look at before stopping.

        Raises:
            UnreadableError: The tables are broken.
        """
        left = _MOST_NAME_BYTES
        for _, (at, info, _, section, _, _) in self._entries(min(self._count(), most)):
            if section and at and info >> 4 and left > 0:
                name = self._name(at)
                left -= len(name)
                yield name

    def _entries(self, count: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        if self._symbols_at is None or count <= 1:
            return
        if count > _MOST_SYMBOLS:
            raise UnreadableError(f"{count} dynamic symbols")
        self._image.expect_many_strings()
        table = self._read(self._symbols_at, count * _SYMBOL.size)
        yield from enumerate(_SYMBOL.iter_unpack(table))

    def _marks(self, count: int) -> bytes:
        if self._versions_at is None or count > _MOST_SYMBOLS:
            return b""
        return self._read(self._versions_at, count * 2)

    def _undefined_count(self) -> int:
        """Symbols before the first hashed one; a hash table begins with what is defined."""
        if isinstance(self._hash, GnuHash) and not self._hash.is_empty:
            return self._hash.first
        return self._count()

    def _count(self) -> int:
        if isinstance(self._hash, SysvHash):
            return self._hash.count
        sections = self._image.sections(b".dynsym")
        if sections:
            return sections[0].size // _SYMBOL.size
        return self._hash.first if self._hash is not None else 0


def _place(image: Image, tag: int) -> int | None:
    address = image.tag(tag)
    return None if address is None else image.offset(address)


def _hash_of(image: Image) -> GnuHash | SysvHash | None:
    place = _place(image, elf.DT_GNU_HASH)
    if place is not None:
        return GnuHash(image, place)
    place = _place(image, elf.DT_HASH)
    return None if place is None else SysvHash(image, place)
