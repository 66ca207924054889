"""None"""

from __future__ import annotations

import pytest

from envguard.crash.exits import ProcessExit, count_ranks, find_process_exits, normalise_exit
from tests.crash.logs import MATRIX
from tests.crash.test_scan import scan


@pytest.mark.parametrize("code", [-9, 137, 247])
def test_sigkill_has_three_forms(code: int) -> None:
    exit_status = normalise_exit(code, MATRIX.signals)
    assert (exit_status.signal, exit_status.name) == (9, "SIGKILL")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (-11, "SIGSEGV"),
        (139, "SIGSEGV"),
        (245, "SIGSEGV"),
        (134, "SIGABRT"),
        (250, "SIGABRT"),
        (-7, "SIGBUS"),
        (249, "SIGBUS"),
        (143, "SIGTERM"),
        (241, "SIGTERM"),
        (129, "SIGHUP"),
        (152, "SIGXCPU"),
    ],
)
def test_every_launcher_form_names_the_signal(code: int, name: str) -> None:
    assert normalise_exit(code, MATRIX.signals).name == name


@pytest.mark.parametrize("code", [0, 1, 2, 9, 124, 125, 126, 127, 255])
def test_plain_statuses_are_no_signals(code: int) -> None:
    assert normalise_exit(code, MATRIX.signals).signal is None


@pytest.mark.parametrize("code", [0xC0000005, 0xC0000005 - 2**32])
def test_windows_access_violation_is_a_segfault_signed_or_not(code: int) -> None:
    exit_status = normalise_exit(code, MATRIX.signals)
    assert (exit_status.signal, exit_status.name) == (11, "STATUS_ACCESS_VIOLATION")


def test_zero_is_success_and_nothing_else_is() -> None:
    assert normalise_exit(0, MATRIX.signals).is_success
    assert not normalise_exit(1, MATRIX.signals).is_success


FAILED = "failed (exitcode: {}) local_rank: {} (pid: {}) of binary: /env/bin/python\n"
BLOCK = """
Failures:
[1]:
  rank      : 1 (local_rank: 1)
  exitcode  : -15 (pid: 1378)
  traceback : Signal 15 (SIGTERM) received by PID 1378
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  rank      : 3 (local_rank: 3)
  exitcode  : -9 (pid: 1377)
  traceback : Signal 9 (SIGKILL) received by PID 1377
"""


def root(text: str, exit_code: int | None = None) -> ProcessExit:
    return find_process_exits(scan(text.encode()), exit_code, MATRIX.signals)[0]


def test_torchruns_first_observed_failure_is_the_root_and_its_siblings_follow() -> None:
    process_exit = root(BLOCK, 1)
    assert (process_exit.status.name, process_exit.rank, process_exit.pid) == ("SIGKILL", 3, 1377)


def test_status_one_of_a_launcher_hides_the_cause_and_is_not_believed() -> None:
    process_exit = root(FAILED.format(-11, 2, 99), 1)
    assert (process_exit.status.name, process_exit.rank) == ("SIGSEGV", 2)


def test_deepspeeds_line_names_the_status_and_not_the_rank() -> None:
    text = "['python', '-u', 'x.py', '--local_rank=7'] exits with return code = -9\n"
    process_exit = root(text, 247)
    assert (process_exit.status.name, process_exit.rank, process_exit.source) == (
        "SIGKILL",
        None,
        "deepspeed",
    )


def test_a_rank_that_was_asked_to_stop_comes_after_one_that_was_not() -> None:
    text = FAILED.format(-15, 0, 10) + FAILED.format(-6, 1, 11)
    process_exits = find_process_exits(scan(text.encode()), None, MATRIX.signals)
    assert [process_exit.status.name for process_exit in process_exits] == ["SIGABRT", "SIGTERM"]


def test_words_of_a_shell_name_the_signal() -> None:
    assert root(
        "bash: line 1:  4242 Segmentation fault      (core dumped) python x.py\n"
    ).status.name == ("SIGSEGV")
    assert root("Killed\n").status.name == "SIGKILL"


def test_the_stated_status_counts_where_the_log_has_none() -> None:
    assert root("step 100\n", 139).source == "--exit-code"


def test_a_log_without_deaths_has_none() -> None:
    assert find_process_exits(scan(b"step 100\n"), 1, MATRIX.signals) == ()


def test_ranks_are_counted_from_what_launchers_print() -> None:
    assert count_ranks(scan(b"--local_rank=7 exits with return code = -9\n"), MATRIX.signals) == 8
    assert count_ranks(scan(BLOCK.encode()), MATRIX.signals) == 4
    assert count_ranks(scan(b"nproc_per_node=2\n"), MATRIX.signals) == 2
    killed = b"".join(
        b"[launch.py:316:sigkill_handler] Killing subprocess %d\n" % n for n in (1, 2, 3)
    )
    assert count_ranks(scan(killed), MATRIX.signals) == 3
    assert count_ranks(scan(b"step 100\n"), MATRIX.signals) is None
