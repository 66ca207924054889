"""A pickle of plain values is read; whatever would run, or grow without bound, is refused."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest

from envguard.crash import plain_pickle
from envguard.crash.plain_pickle import DEEPEST, read_plain_pickle
from envguard.errors import InputError

VALUE: dict[Any, Any] = {
    "entries": [1, 255, 65535, -5, 2**31, 2**70, 2.5, None, True, False, "é", ["a", ["b"]], {}],
    3: (1, (2, 3), (1, 2, 3, 4), ()),
}
SAMPLE = (
    Path(__file__).parents[1] / "samples" / "flight_recorder" / "differ" / "nccl_trace_rank_0"
).read_bytes()


class Hostile:
    """Runs a command where it is loaded as pickle loads things."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.marker}",)


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
def test_plain_values_of_every_binary_protocol_come_back(protocol: int) -> None:
    assert read_plain_pickle(pickle.dumps(VALUE, protocol), "dump") == VALUE


def test_bytes_come_back() -> None:
    assert read_plain_pickle(pickle.dumps([b"a" * 300, b"b"], 4), "dump") == [b"a" * 300, b"b"]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_reducer_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    marker = tmp_path / "ran"
    data = pickle.dumps([1, Hostile(marker)], protocol)
    with pytest.raises(InputError, match=r"never carried out|no whole pickle"):
        read_plain_pickle(data, "dump")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("GLOBAL", b"\x80\x02cos\nsystem\n."),
        ("STACK_GLOBAL", b"\x80\x04\x8c\x02os\x8c\x06system\x93."),
        ("REDUCE", b"\x80\x02))R."),
        ("BUILD", b"\x80\x02}}b."),
        ("INST", b"(ios\nsystem\n."),
        ("OBJ", b"((o."),
        ("NEWOBJ", b"\x80\x02))\x81."),
        ("NEWOBJ_EX", b"\x80\x04))}\x92."),
        ("PERSID", b"P1\n."),
        ("BINPERSID", b"\x80\x02K\x01Q."),
        ("EXT1", b"\x80\x02\x82\x01."),
        ("EXT2", b"\x80\x02\x83\x01\x00."),
        ("EXT4", b"\x80\x02\x84\x01\x00\x00\x00."),
        ("BYTEARRAY8", b"\x80\x05\x96" + b"\0" * 8 + b"."),
        ("NEXT_BUFFER", b"\x80\x05\x97."),
    ],
)
def test_what_reaches_out_is_refused_by_its_name(name: str, data: bytes) -> None:
    with pytest.raises(InputError, match=rf"is {name}, which plain values do not need"):
        read_plain_pickle(data, "dump")


def test_a_file_that_breaks_off_anywhere_is_one_clear_error() -> None:
    for length in range(len(SAMPLE)):
        with pytest.raises(InputError, match="dump: is no"):
            read_plain_pickle(SAMPLE[:length], "dump")


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02h\x07.",  # recalls what was never remembered
        b"\x80\x02K\x01K\x02a.",  # appends to a number
        b"\x80\x02}K\x01a.",  # appends to a dictionary
        b"\x80\x02}(K\x01u.",  # half a pair
        b"\x80\x02}]K\x01s.",  # a list as a key
        b"\x80\x02\x85.",  # a tuple of nothing
        b"\x80\x02e.",  # no mark
        b"\x80\x09N.",  # a protocol that there is not
        b"\x80\x02" + b"I" + b"9" * 5000 + b"\n.",
        b"\x80\x02\x8b" + struct.pack("<i", 2**30) + b"1" * 100 + b".",
        b"\x80\x02\x8b" + struct.pack("<i", -1) + b".",
        b"\x80\x02X\xff\xff\xff\xffabc.",
        b"Fnan?\n.",
        b"Ixyz\n.",
        b"\xff",
        b"",
    ],
)
def test_damage_is_an_error_of_the_input(data: bytes) -> None:
    with pytest.raises(InputError):
        read_plain_pickle(data, "dump")


def test_nesting_is_bounded() -> None:
    deep = b"\x80\x02" + b"]" * (DEEPEST + 2) + b"a" * (DEEPEST + 1) + b"."
    with pytest.raises(InputError, match="nests deeper"):
        read_plain_pickle(deep, "dump")
    with pytest.raises(InputError, match="nests deeper"):
        read_plain_pickle(b"\x80\x02" + b"(" * (DEEPEST + 1), "dump")
    with pytest.raises(InputError, match="nests deeper"):
        read_plain_pickle(b"\x80\x02N" + b"\x85" * (DEEPEST + 1) + b".", "dump")


def test_memo_and_operations_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MOST_MEMO", 100)
    with pytest.raises(InputError, match="remembers more than 100"):
        read_plain_pickle(b"\x80\x04N" + b"\x94" * 101 + b".", "dump")
    monkeypatch.setattr(plain_pickle, "MOST_OPCODES", 50)
    with pytest.raises(InputError, match="more than 50 operations"):
        read_plain_pickle(b"\x80\x02" + b"N" * 60 + b".", "dump")


def test_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MOST_BYTES", 2**20)
    with pytest.raises(InputError, match="larger than 1 MiB"):
        read_plain_pickle(bytes(2**20 + 1), "dump")


def test_values_that_share_their_parts_stay_small() -> None:
    """Each level holds the one below twice: written out it would be 2 to the power of 40 values."""
    rows = b"".join(
        b"](" + b"h" + bytes([n]) + b"h" + bytes([n]) + b"eq" + bytes([n + 1]) for n in range(40)
    )
    assert len(read_plain_pickle(b"\x80\x02]q\x00" + rows + b".", "dump")) == 2
