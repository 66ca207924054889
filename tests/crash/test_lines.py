from __future__ import annotations

import codecs
import io

import pytest

from envguard.crash.log import read_blocks
from envguard.signatures import strip_prefix


def blocks(data: bytes, chunk: int = 64) -> list[tuple[bytes, bool]]:
    return list(read_blocks(io.BytesIO(data), chunk))


@pytest.mark.parametrize(
    ("line", "rest", "rank"),
    [
        ("[rank3]: RuntimeError: x", "RuntimeError: x", 3),
        ("[rank3]:[E1129 10:00:00] x", "[E1129 10:00:00] x", 3),
        ("[default7]:MemoryError", "MemoryError", 7),
        ("[1,12]<stderr>:oom_kill 2", "oom_kill 2", 12),
        ("5: Killed", "Killed", 5),
        ("2026-11-29T10:00:00.123456789Z oom_kill 2", "oom_kill 2", None),
        ("(train_func pid=77, ip=10.0.0.3) MemoryError", "MemoryError", None),
        ("Nov 29 10:11:12 box kernel: Out of memory", "Out of memory", None),
        ("[ 8122.112233] Out of memory", "Out of memory", None),
        ("plain words", "plain words", None),
    ],
)
def test_prefixes_are_taken_off_and_name_the_rank(line: str, rest: str, rank: int | None) -> None:
    assert strip_prefix(line) == (rest, rank)


def test_blocks_end_with_a_line_end_and_join_to_the_whole() -> None:
    data = b"".join(b"line %d\n" % n for n in range(100)) + b"stops mid-li"
    parts = blocks(data)
    assert b"".join(part for part, _ in parts) == data
    assert [closed for _, closed in parts][-1] is False
    assert all(part.endswith(b"\n") for part, closed in parts if closed)


def test_colours_are_taken_out() -> None:
    assert blocks(b"\x1b[1;31mRuntimeError\x1b[0m: x\n") == [(b"RuntimeError: x\n", True)]


def test_an_endless_line_is_cut_after_a_progress_bar() -> None:
    data = b"12%|##|\r" * 40_000
    parts = blocks(data, 1 << 16)
    assert len(parts) > 1
    assert b"".join(part for part, _ in parts) == data
    assert all(part.endswith(b"\r") for part, _ in parts)


@pytest.mark.parametrize("name", ["utf-16-le", "utf-16-be"])
def test_utf_16_with_a_mark_is_read(name: str) -> None:
    mark = codecs.BOM_UTF16_LE if name.endswith("le") else codecs.BOM_UTF16_BE
    data = mark + "exits with return code = -9\r\n".encode(name)
    text = b"".join(part for part, _ in blocks(data, 7)).decode()
    assert "exits with return code = -9" in text
