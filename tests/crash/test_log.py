"""None"""

from __future__ import annotations

import codecs
import io

import pytest

from envguard.crash.log import read_blocks
from envguard.wrappers import strip_prefix
from tests.crash.logs import report_of
from tests.crash.test_scan import scan


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


HEADS = {
    "3.10": "[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name",
    "5.4": "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
    "6.18": "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes "
    "swapents oom_score_adj name",
}
ROWS = {
    "3.10": "[ 4101]  1000  4101 27465008 24338518   47924        0             0 python",
    "5.4": "[   4101]  1000  4101 27465008 24338518 1957441536     7930          -998 python",
    "6.18": "[   4101]  1000  4101 27465008 24338518 24300000 38518 0 1957441536 0 -998 python",
}


@pytest.mark.parametrize("kernel", sorted(ROWS))
def test_task_tables_of_several_kernels_are_read(kernel: str) -> None:
    text = (
        f"[1.0] python invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0\n"
        f"[1.1] {HEADS[kernel]}\n[1.2] {ROWS[kernel]}\n"
        "[1.3] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)\n"
    )
    (task,) = scan(text.encode()).tasks
    assert (task.pid, task.name, task.rss_pages, task.line) == (4101, "python", 24338518, 3)
    assert round(task.rss_gib, 1) == 92.8


def test_only_the_last_event_counts() -> None:
    event = f"[1.1] {HEADS['5.4']}\n[1.2] {ROWS['5.4']}\n"
    later = event.replace("4101", "5202")
    log = scan(f"oom-kill: first\n{event}oom-kill: second\n{later}".encode())
    assert [task.pid for task in log.tasks] == [5202]


def test_numbers_without_the_kernels_words_are_no_tasks() -> None:
    assert scan(f"{ROWS['5.4']}\n".encode()).tasks == ()


def test_container_limit_is_told_from_a_full_machine() -> None:
    line = "oom-kill:constraint={},nodemask=(null),{}task_memcg=/x,task=python,pid=7,uid=0\n"
    limit = report_of(line.format("CONSTRAINT_MEMCG", "oom_memcg=/docker/1,"))
    machine = report_of(line.format("CONSTRAINT_NONE", "global_oom,"))
    assert limit.root_cause == "container-memory-limit"
    assert machine.root_cause == "host-memory-exhausted"
