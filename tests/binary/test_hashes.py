from __future__ import annotations

import pytest

from envguard.binary.hashes import gnu_hash, sysv_hash


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
