from __future__ import annotations

import pytest

from tests.crash.logs import report_of
from tests.crash.test_scan import scan

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
