"""The order in which the loader resolves symbols, which decides what an ImportError names."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from envguard.binary import elf

if TYPE_CHECKING:
    from envguard.binary.elf import Image

_RELOCATION = struct.Struct("<QQq")
_BLOCK = 4096 * _RELOCATION.size
_MOST = 4_000_000 * _RELOCATION.size
_TABLES = ((elf.DT_RELA, elf.DT_RELASZ), (elf.DT_JMPREL, elf.DT_PLTRELSZ))


def first_relocated(image: Image, wanted: frozenset[int]) -> int | None:
    """Which of some symbols the loader resolves first.

    Python and ctypes ask for immediate binding, so the loader applies ``DT_RELA`` and then
    ``DT_JMPREL``, both in file order, and stops at the first symbol that it does not find.

    Args:
        image: The file.
        wanted: Symbol indexes.

    Returns:
        One of them, or None when no relocation uses any.

    Raises:
        UnreadableError: A table lies outside the file.
    """
    left = _MOST
    for start, length in _TABLES:
        address, size = image.tag(start), min(image.tag(length) or 0, left)
        if address is None or not size:
            continue
        left -= size
        size -= size % _RELOCATION.size
        found = _search(image, image.offset(address), size, wanted)
        if found is not None:
            return found
    return None


def _search(image: Image, offset: int, size: int, wanted: frozenset[int]) -> int | None:
    for start in range(0, size, _BLOCK):
        block = image.source.read(offset + start, min(_BLOCK, size - start))
        for _, info, _ in _RELOCATION.iter_unpack(block):
            symbol: int = info >> 32
            if symbol in wanted:
                return symbol
    return None
