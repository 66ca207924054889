"""ELF headers: segments, sections and the dynamic table of a 64-bit little-endian file.

Written out here because a deep check opens hundreds of files: reading one with pyelftools takes
3 ms, thirty times as long, and hostile headers end in whatever its structures raise.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from envguard.binary.source import UnreadableError

if TYPE_CHECKING:
    from envguard.binary.source import ByteSource

MAGIC = b"\x7fELF"
MACHINES = {62: "x86_64", 183: "aarch64", 21: "ppc64le", 243: "riscv64", 190: "cuda"}
SHARED_OBJECT = 3  # ET_DYN

_HEADER = struct.Struct("<4sBBBB8xHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_TAG = struct.Struct("<qQ")
_LOAD, _DYNAMIC = 1, 2
_FIRST_READ = 4096  # the header and, as linkers lay them out, the program headers
_MOST_SEGMENTS = 4096
_MOST_SECTION_NAMES = 8 * 1024 * 1024
_MOST_DYNAMIC = 256 * 1024
_SMALL_STRINGS, _WHOLE_STRINGS = 64 * 1024, 16 * 1024 * 1024
_NAME_STEP = 128
_MOST_NAME = 64 * 1024

DT_NEEDED, DT_PLTRELSZ, DT_HASH, DT_STRTAB, DT_SYMTAB = 1, 2, 4, 5, 6
DT_RELA, DT_RELASZ, DT_STRSZ, DT_SONAME, DT_RPATH, DT_JMPREL = 7, 8, 10, 14, 15, 23
DT_RUNPATH, DT_GNU_HASH, DT_VERSYM, DT_FLAGS_1 = 29, 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFB
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = (
    0x6FFFFFFC,
    0x6FFFFFFD,
    0x6FFFFFFE,
    0x6FFFFFFF,
)


class Segment(NamedTuple):
    """A piece of the file and where it is mapped."""

    offset: int
    address: int
    size: int


class Section(NamedTuple):
    """A named piece of the file."""

    name: bytes
    kind: int
    offset: int
    size: int


class Image:
    """The headers of one ELF file; the rest is read when asked for.

    Args:
        source: The file.

    Raises:
        UnreadableError: No ELF file, one of another word size or byte order, or headers that
            point outside it.
    """

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        head = source.read_upto(0, _FIRST_READ)
        if len(head) < _HEADER.size or head[:4] != MAGIC:
            raise UnreadableError("not an ELF file" if head else "empty")
        fields = _HEADER.unpack_from(head)
        _check_class(fields[1], fields[2])
        self.kind: int = fields[5]
        self.machine: str = MACHINES.get(fields[6], f"machine {fields[6]}")
        self._sections_at: int = fields[10]
        self.flags: int = fields[11]
        self._section_size, self._section_count, self._names_index = fields[15:18]
        self._loads: list[Segment] = []
        self._dynamic: Segment | None = None
        self._read_segments(head, fields[9], fields[13], fields[14])
        self._tags: dict[int, list[int]] | None = None
        self._strings: tuple[Segment, bytes] | None = None

    def _read_segments(self, head: bytes, offset: int, size: int, count: int) -> None:
        if not count:
            return
        if size != _SEGMENT.size or count > _MOST_SEGMENTS:
            raise UnreadableError(f"{count} program headers of {size} bytes")
        end = offset + count * size
        table = head[offset:end] if end <= len(head) else self.source.read(offset, count * size)
        for kind, _, start, address, _, in_file, _, _ in _SEGMENT.iter_unpack(table):
            if kind == _LOAD:
                self._loads.append(Segment(start, address, in_file))
            elif kind == _DYNAMIC:
                self._dynamic = Segment(start, address, in_file)

    def sections(self, *names: bytes) -> list[Section]:
        """The sections with these names, in file order.

        Raises:
            UnreadableError: The section headers lie outside the file.
        """
        if not self._sections_at:
            return []
        table = self._section_table()
        texts = self._section_names(table)
        if not any(name + b"\0" in texts for name in names):
            return []
        found = []
        for at, kind, _, _, offset, size, *_ in _SECTION.iter_unpack(table):
            end = texts.find(b"\0", at)
            name = texts[at:end] if 0 <= at < end else b""
            if name in names:
                found.append(Section(name, kind, offset, size))
        return found

    @property
    def has_sections(self) -> bool:
        """Whether section headers were left in the file; some strippers remove them."""
        return bool(self._sections_at)

    def _section_table(self) -> bytes:
        if self._section_size != _SECTION.size:
            raise UnreadableError(f"section headers of {self._section_size} bytes")
        count = self._section_count
        if not count:  # more than 65279 sections: the first header tells how many
            count = _SECTION.unpack(self.source.read(self._sections_at, _SECTION.size))[5]
        if count * _SECTION.size > self.source.size:
            raise UnreadableError(f"{count} section headers in a file of {self.source.size} bytes")
        return self.source.read(self._sections_at, count * _SECTION.size)

    def _section_names(self, table: bytes) -> bytes:
        start = self._names_index * _SECTION.size
        if start + _SECTION.size > len(table):
            raise UnreadableError(f"section {self._names_index} is to hold the names")
        _, _, _, _, offset, size, *_ = _SECTION.unpack_from(table, start)
        if size > _MOST_SECTION_NAMES:
            raise UnreadableError(f"section names of {size} bytes")
        return self.source.read(offset, size)

    def tags(self, tag: int) -> list[int]:
        """The values of a dynamic tag, in order; empty when the file has none.

        Raises:
            UnreadableError: The dynamic table lies outside the file.
        """
        if self._tags is None:
            self._tags = self._read_tags()
        return self._tags.get(tag, [])

    def tag(self, tag: int) -> int | None:
        """The value of a dynamic tag that stands once, or None."""
        values = self.tags(tag)
        return values[0] if values else None

    def _read_tags(self) -> dict[int, list[int]]:
        tags: dict[int, list[int]] = {}
        if self._dynamic is None:
            return tags
        size = min(self._dynamic.size, _MOST_DYNAMIC) // _TAG.size * _TAG.size
        for tag, value in _TAG.iter_unpack(self.source.read(self._dynamic.offset, size)):
            if not tag:
                break
            tags.setdefault(tag, []).append(value)
        return tags

    def offset(self, address: int) -> int:
        """Where in the file an address is mapped from.

        Raises:
            UnreadableError: No segment covers it.
        """
        for segment in self._loads:
            if segment.address <= address < segment.address + segment.size:
                return segment.offset + address - segment.address
        raise UnreadableError(f"address {address:#x} is in no segment")

    def string(self, at: int) -> str:
        """A string of the dynamic string table; bytes that are no text are replaced.

        Raises:
            UnreadableError: It begins outside the table or has no end.
        """
        return self.raw_string(at).decode("utf-8", "replace")

    def raw_string(self, at: int) -> bytes:
        """A string of the dynamic string table as bytes; see :meth:`string`."""
        if self._strings is None:
            self._strings = self._find_strings(_SMALL_STRINGS)
        table, whole = self._strings
        if not 0 <= at < table.size:
            raise UnreadableError(f"string {at} is outside the string table")
        if whole:
            end = whole.find(b"\0", at, at + _MOST_NAME)
            data = whole[at:end]
        else:
            end, data = self._far_string(table, at)
        if end < 0:
            raise UnreadableError(f"string {at} does not end")
        return data

    def expect_many_strings(self) -> None:
        """Read the string table at once, which is cheaper than one read for each name.

        Raises:
            UnreadableError: It lies outside the file.
        """
        if self._strings is None or not self._strings[1]:
            self._strings = self._find_strings(_WHOLE_STRINGS)

    def _find_strings(self, most: int) -> tuple[Segment, bytes]:
        """Where the string table is, and its bytes unless they are too many."""
        address, size = self.tag(DT_STRTAB), self.tag(DT_STRSZ)
        if address is None or size is None:
            raise UnreadableError("no string table")
        table = Segment(self.offset(address), address, size)
        return table, self.source.read(table.offset, size) if size <= most else b""

    def _far_string(self, table: Segment, at: int) -> tuple[int, bytes]:
        step = _NAME_STEP
        while True:
            data = self.source.read_upto(table.offset + at, min(step, table.size - at))
            end = data.find(b"\0")
            if end >= 0 or len(data) < step or step > _MOST_NAME:
                return end, data[:end]
            step *= 8


def _check_class(word_size: int, byte_order: int) -> None:
    if word_size != 2:
        raise UnreadableError("a 32-bit ELF file, which is not read")
    if byte_order != 1:
        raise UnreadableError("a big-endian ELF file, which is not read")
