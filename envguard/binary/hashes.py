"""The two symbol hash tables of ELF files, as the loader uses them."""

from __future__ import annotations

import struct
from functools import lru_cache
from operator import mul
from typing import TYPE_CHECKING

from envguard.binary.source import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.binary.elf import Image

_WORD, _DOUBLE = struct.Struct("<I"), struct.Struct("<Q")
_HEADER = struct.Struct("<IIII")
_MOST_BYTES = 32 * 1024 * 1024
_MOST_STEPS = 4096  # a chain of a real library holds a handful

_LONGEST = 512
_WEIGHTS: tuple[int, ...] = tuple(pow(33, n, 2**32) for n in reversed(range(_LONGEST)))
_SEEDS: tuple[int, ...] = tuple(5381 * pow(33, n, 2**32) for n in range(_LONGEST + 1))


@lru_cache(maxsize=64)  # one name is looked up in many files in turn
def gnu_hash(name: bytes) -> int:
    """The hash of a symbol's name in ``DT_GNU_HASH`` tables.

    Written as a weighted sum, which Python computes several times faster than the loop.

    Source: ``dl_new_hash`` of the GNU C library, h = h * 33 + c from 5381.
    """
    size = len(name)
    if size <= _LONGEST:
        terms: Iterator[int] = map(mul, name, _WEIGHTS[_LONGEST - size :])
        return (_SEEDS[size] + sum(terms)) & 0xFFFFFFFF
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def sysv_hash(name: bytes) -> int:
    """The hash of a symbol's name in ``DT_HASH`` tables (System V ABI, figure 5-13)."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


class GnuHash:
    """A ``DT_GNU_HASH`` table: a Bloom filter, buckets, and chains of symbols with one hash.

    Args:
        image: The file.
        offset: Where the table begins.

    Raises:
        UnreadableError: It does not fit into the file.
    """

    def __init__(self, image: Image, offset: int) -> None:
        self._read_upto = image.source.read_upto
        head = _HEADER.unpack(image.source.read(offset, _HEADER.size))
        self._buckets, self.first, self._words, self._shift = map(int, head)
        if not self._buckets or not self._words or self._shift > 31:
            raise UnreadableError("a symbol hash table that is none")
        size = self._words * _DOUBLE.size + self._buckets * _WORD.size
        if size > _MOST_BYTES:
            raise UnreadableError(f"a symbol hash table of {size} bytes")
        self._table = image.source.read(offset + _HEADER.size, size)
        self._chains = offset + _HEADER.size + size

    @property
    def is_empty(self) -> bool:
        """Whether the file defines nothing; :attr:`first` then means nothing."""
        return not self._table[self._words * _DOUBLE.size :].strip(b"\0")

    def candidates(self, name: bytes) -> Iterator[int]:
        """Symbols whose hash is that of a name.

        Raises:
            UnreadableError: A chain leaves the file or does not end.
        """
        value = gnu_hash(name)
        word = _DOUBLE.unpack_from(self._table, (value >> 6) % self._words * _DOUBLE.size)[0]
        if not (word >> (value & 63)) & (word >> ((value >> self._shift) & 63)) & 1:
            return
        bucket = self._words * _DOUBLE.size + value % self._buckets * _WORD.size
        index = _WORD.unpack_from(self._table, bucket)[0]
        if index < self.first:
            return
        for step in range(_MOST_STEPS):
            found = self._chain(index + step)
            if found | 1 == value | 1:
                yield index + step
            if found & 1:
                return
        raise UnreadableError("a symbol hash chain does not end")

    def _chain(self, index: int) -> int:
        data = self._read_upto(self._chains + (index - self.first) * _WORD.size, _WORD.size)
        if len(data) < _WORD.size:
            raise UnreadableError("a symbol hash chain leaves the file")
        found: int = _WORD.unpack(data)[0]
        return found


class SysvHash:
    """A ``DT_HASH`` table, of files linked for old loaders.

    Args:
        image: The file.
        offset: Where the table begins.

    Raises:
        UnreadableError: It does not fit into the file.
    """

    def __init__(self, image: Image, offset: int) -> None:
        self._read = image.source.read
        self._buckets, self.count = map(int, struct.unpack("<II", self._read(offset, 8)))
        if not self._buckets:
            raise UnreadableError("a symbol hash table without buckets")
        self._at = offset + 8

    def candidates(self, name: bytes) -> Iterator[int]:
        """Symbols in the bucket of a name.

        Raises:
            UnreadableError: A chain leaves the file or does not end.
        """
        index = self._word(sysv_hash(name) % self._buckets)
        for _ in range(_MOST_STEPS):
            if not index or index >= self.count:
                return
            yield index
            index = self._word(self._buckets + index)
        raise UnreadableError("a symbol hash chain does not end")

    def _word(self, place: int) -> int:
        found: int = _WORD.unpack(self._read(self._at + place * _WORD.size, _WORD.size))[0]
        return found
