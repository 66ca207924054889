from __future__ import annotations

import struct

import pytest

from envguard.binary.elf import Image
from envguard.binary.hashes import GnuHash, SysvHash, gnu_hash, sysv_hash
from envguard.binary.source import MemorySource, UnreadableError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"", 0x00001505),
        (b"printf", 0x156B2BB8),
        (b"exit", 0x7C967E3F),
        (b"syscall", 0xBAC212A0),
        (b"flapenguin.me", 0x8AE9F18E),
    ],
)
def test_known_hashes_of_gnu_tables(name: bytes, value: int) -> None:
    assert gnu_hash(name) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [(b"", 0), (b"printf", 0x077905A6), (b"exit", 0x0006CF04), (b"syscall", 0x0B09985C)],
)
def test_known_hashes_of_system_v_tables(name: bytes, value: int) -> None:
    assert sysv_hash(name) == value


def test_a_long_name_hashes_like_its_parts() -> None:
    """h(name + c) = h(name) * 33 + c, also where the name is longer than the weights reach."""
    for size in (511, 512, 513, 2000):
        longer = (gnu_hash(b"x" * size) * 33 + ord("y")) % 2**32
        assert gnu_hash(b"x" * size + b"y") == longer


def behind_a_header(table: bytes) -> tuple[Image, int]:
    """An ELF file without any headers but the first, and a table behind it."""
    head = b"\x7fELF\x02\x01\x01".ljust(64, b"\0")
    return Image(MemorySource(head + table)), len(head)


def gnu_table(bucket: int, chains: bytes, *, buckets: int = 1, shift: int = 6) -> bytes:
    return struct.pack("<IIIIQI", buckets, 1, 1, shift, 2**64 - 1, bucket) + chains


def test_a_chain_gives_the_symbols_of_its_hash() -> None:
    value = gnu_hash(b"printf")
    chains = struct.pack("<III", value & ~1, 4, value | 1)
    table = GnuHash(*behind_a_header(gnu_table(1, chains)))
    assert list(table.candidates(b"printf")) == [1, 3]
    assert not table.is_empty


def test_a_table_of_a_file_that_defines_nothing_is_empty() -> None:
    assert GnuHash(*behind_a_header(gnu_table(0, b""))).is_empty


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (gnu_table(1, bytes(40_000)), "does not end"),
        (gnu_table(1, bytes(40)), "leaves the file"),
        (gnu_table(2**32 - 1, bytes(40)), "leaves the file"),
    ],
)
def test_a_chain_that_leads_nowhere_is_given_up(table: bytes, words: str) -> None:
    with pytest.raises(UnreadableError, match=words):
        list(GnuHash(*behind_a_header(table)).candidates(b"printf"))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (gnu_table(1, b"", buckets=0), "that is none"),
        (gnu_table(1, b"", shift=32), "that is none"),
        (gnu_table(1, b"", buckets=2**31), "8589934600 bytes"),
        (gnu_table(1, b"", buckets=1000), "truncated"),
        (b"\0" * 8, "truncated"),
    ],
)
def test_a_table_that_cannot_be_one_is_refused(table: bytes, words: str) -> None:
    with pytest.raises(UnreadableError, match=words):
        GnuHash(*behind_a_header(table))


def test_chains_of_old_tables() -> None:
    good = struct.pack("<IIIIII", 1, 3, 2, 0, 0, 1)
    assert list(SysvHash(*behind_a_header(good)).candidates(b"x")) == [2, 1]
    circle = struct.pack("<IIIIII", 1, 3, 1, 0, 2, 1)
    with pytest.raises(UnreadableError, match="does not end"):
        list(SysvHash(*behind_a_header(circle)).candidates(b"x"))
    with pytest.raises(UnreadableError, match="without buckets"):
        SysvHash(*behind_a_header(bytes(8)))
