"""Code for GPUs in a compiled file: one pass over the headers of its fatbins.

A fatbin is a header and a row of entries, each PTX or a cubin for one target. Only headers are
read and nothing is decompressed, so the cost follows the number of entries, not their bytes.

Source: the layout was read off what ``fatbinary`` of CUDA 13.0 writes for each ``--gencode``,
and agrees with what ``cuobjdump`` prints for the libraries of torch 2.14.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING

from envguard.binary.source import UnreadableError
from envguard.facts.binary import CodeCount
from envguard.facts.versions import ComputeCapability
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.binary.elf import Image
    from envguard.binary.source import ByteSource

MAGIC = 0xBA55ED50
_PROGRAMS, _PARTS = b".nv_fatbin", b"__nv_relfatbin"
SECTIONS = (_PROGRAMS, _PARTS)
_WRAPPERS = b".nvFatBinSegment"  # the host code's pointers to the fatbins

_HEADER = struct.Struct("<IHHQ")  # magic, version, size of this header, size of the entries
# kind, version, size of this header, size of the code, 8 bytes, code version minor and major,
# compute capability, 8 bytes, flags
_ENTRY = struct.Struct("<HHIQ8xHHI8xQ")
_PTX, _CUBIN = 1, 2  # further kinds: 8 is code for the link-time optimiser, which does not run
_THIS_CAPABILITY, _THIS_FAMILY = 1 << 20, 1 << 21  # sm_90a, sm_100f
_MOST_ENTRIES, _MOST_FATBINS = 1_000_000, 200_000
_MOST_PADDING = 64 * 1024
_LOWEST, _HIGHEST = 10, 9999  # as in sm_10 and sm_9999


@dataclass(frozen=True, slots=True)
class GpuCode:
    """What the fatbins of one file hold.

    Args:
        cubin: Machine code by target, ascending.
        ptx: Virtual code by target, ascending.
        ptx_version: Newest PTX language version; it tells the CUDA release of the compiler.
    """

    cubin: tuple[CodeCount, ...] = ()
    ptx: tuple[CodeCount, ...] = ()
    ptx_version: tuple[int, int] | None = None


def read_gpu_code(image: Image) -> GpuCode:
    """Count the GPU code of an ELF file.

    Raises:
        UnreadableError: A header says what cannot be; nothing is counted then.
    """
    if not image.has_sections:
        raise UnreadableError("the section headers were removed, so its GPU code is not found")
    sections = image.sections(*SECTIONS)
    # Where the device linker has made programs, its parts are left in the file but never loaded.
    programs = [section for section in sections if section.name == _PROGRAMS] or sections
    if not programs and image.sections(_WRAPPERS):
        raise UnreadableError("it refers to GPU code that lies in no section of the usual names")
    return _count(image.source, [(section.offset, section.size) for section in programs])


def read_fatbin_file(source: ByteSource) -> GpuCode:
    """Count the code in a ``.fatbin`` file as nvcc writes it.

    Raises:
        UnreadableError: A header says what cannot be.
    """
    return _count(source, [(0, source.size)])


def _count(source: ByteSource, places: list[tuple[int, int]]) -> GpuCode:
    tallies: dict[int, Counter[tuple[int, str]]] = {_PTX: Counter(), _CUBIN: Counter()}
    newest: tuple[int, int] | None = None
    left = _MOST_ENTRIES
    for offset, size in places:
        if offset + size > source.size:
            raise UnreadableError(f"truncated: GPU code is said to reach to {offset + size:#x}")
        for fields in _entries(source, offset, offset + size):
            left -= 1
            if not left:
                raise UnreadableError(f"more than {_MOST_ENTRIES} pieces of GPU code")
            kind, minor, major, capability, flags = fields
            if kind in tallies:
                tallies[kind][capability, _suffix(flags)] += 1
            if kind == _PTX:
                newest = max(newest or (0, 0), (major, minor))
    return GpuCode(_sorted(tallies[_CUBIN]), _sorted(tallies[_PTX]), newest)


def _entries(source: ByteSource, offset: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """The entries of the fatbins that stand one after the other in a section."""
    left = _MOST_FATBINS
    while offset + _HEADER.size <= end:
        left -= 1
        if not left:
            raise UnreadableError(f"more than {_MOST_FATBINS} fatbins in a section")
        magic, _, head, size = _HEADER.unpack(source.read(offset, _HEADER.size))
        if magic != MAGIC:
            offset = _skip_padding(source, offset, end)
            continue
        stop = offset + head + size
        if head < _HEADER.size or stop > end:
            raise UnreadableError(
                f"the fatbin at {offset:#x} is said to be {head + size} bytes, "
                f"{end - offset} are left in its section"
            )
        yield from _entries_of(source, offset + head, stop)
        offset = stop


def _entries_of(
    source: ByteSource, offset: int, stop: int
) -> Iterator[tuple[int, int, int, int, int]]:
    while offset < stop:
        if offset + _ENTRY.size > stop:
            raise UnreadableError(f"the fatbin entry at {offset:#x} is cut off")
        fields = _ENTRY.unpack(source.read(offset, _ENTRY.size))
        kind, _, head, size, minor, major, capability, flags = fields
        if head < _ENTRY.size or offset + head + size > stop:
            raise UnreadableError(
                f"the fatbin entry at {offset:#x} is said to be {head + size} bytes, "
                f"{stop - offset} are left"
            )
        if kind in {_PTX, _CUBIN} and not _LOWEST <= capability <= _HIGHEST:
            raise UnreadableError(f"the fatbin entry at {offset:#x} is for sm_{capability}")
        yield kind, minor, major, capability, flags
        offset += head + size


def _skip_padding(source: ByteSource, offset: int, end: int) -> int:
    """Where the next fatbin begins; the linker aligns with zeros."""
    data = source.read(offset, min(_MOST_PADDING, end - offset))
    rest = data.lstrip(b"\0")
    if not rest and offset + len(data) == end:
        return end
    skipped = len(data) - len(rest)
    if not rest.startswith(MAGIC.to_bytes(4, "little")) or not skipped:
        raise UnreadableError(f"what stands at {offset + skipped:#x} is no fatbin")
    return offset + skipped


def _suffix(flags: int) -> str:
    if flags & _THIS_CAPABILITY:
        return "a"
    return "f" if flags & _THIS_FAMILY else ""


def _sorted(tally: Counter[tuple[int, str]]) -> tuple[CodeCount, ...]:
    return tuple(
        sorted(
            CodeCount(ComputeCapability(number // 10, number % 10), suffix, count)
            for (number, suffix), count in tally.items()
        )
    )
