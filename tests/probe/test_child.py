"""Children that hang, crash, flood, or leave descendants behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from envguard.facts.gaps import GapReason
from envguard.probe.child import (
    Child,
    ChildResult,
    Pipes,
    SelectedPipes,
    ThreadedPipes,
    signal_name,
)

if TYPE_CHECKING:
    from pathlib import Path

KINDS = pytest.mark.parametrize("pipes", [SelectedPipes, ThreadedPipes])


def run(
    code: str, *, pipes: type[Pipes] | None = None, timeout_s: float = 20.0, limit: int = 1 << 20
) -> ChildResult:
    child = Child(
        [sys.executable, "-I", "-S", "-c", code],
        environ=dict(os.environ),
        timeout_s=timeout_s,
        limit=limit,
        pipes=pipes,
    )
    return child.collect()


@KINDS
def test_both_outputs_and_the_status_are_kept(pipes: type[Pipes]) -> None:
    result = run(
        "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", pipes=pipes
    )
    assert (result.stdout, result.stderr, result.status) == ("out\n", "err\n", 3)
    assert result.reason is None
    assert result.ending == "ended with status 3: err"


@KINDS
def test_output_beyond_a_pipes_capacity_arrives_whole(pipes: type[Pipes]) -> None:
    result = run("print('x' * 300000)", pipes=pipes)
    assert len(result.stdout) == 300001
    assert result.status == 0


@KINDS
def test_a_hanging_child_is_killed_with_its_descendants(pipes: type[Pipes], tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = (
        "import subprocess, sys, time; "
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
        f"open({str(note)!r}, 'w').write(str(p.pid)); print('begun', flush=True); time.sleep(600)"
    )
    result = run(code, pipes=pipes, timeout_s=2.0)
    assert result.reason is GapReason.TIMED_OUT
    assert result.status is None
    assert result.stdout == "begun\n"
    assert result.detail.endswith("gave no answer within 2 s")
    assert is_gone(int(note.read_text()))


def is_gone(pid: int) -> bool:
    for _ in range(200):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


@KINDS
def test_a_descendant_that_holds_the_pipes_is_not_waited_for(pipes: type[Pipes]) -> None:
    code = (
        "import subprocess, sys; "
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); print('done')"
    )
    result = run(code, pipes=pipes, timeout_s=300.0)
    assert (result.stdout, result.status, result.reason) == ("done\n", 0, None)


@KINDS
def test_a_flood_is_cut_and_the_child_killed(pipes: type[Pipes]) -> None:
    result = run("while True: print('x' * 1000)", pipes=pipes, limit=100_000)
    assert result.reason is GapReason.UNREADABLE
    assert result.detail.endswith("wrote more than 100000 bytes")
    assert len(result.stdout) == 100_000


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_a_signal_is_a_crash_with_its_name(number: signal.Signals) -> None:
    result = run(f"import os; os.kill(os.getpid(), {int(number)})")
    assert result.reason is GapReason.CRASHED
    assert result.status == -number
    assert result.detail.endswith(f"was ended by {number.name}")


def test_a_real_time_signal_without_name_keeps_its_number() -> None:
    assert signal_name(40) == "signal 40"


def test_a_program_that_does_not_exist_is_absent(tmp_path: Path) -> None:
    child = Child([str(tmp_path / "nothing")], environ={}, timeout_s=5.0)
    result = child.collect()
    assert result.reason is GapReason.ABSENT
    assert result.detail == "nothing could not be started: No such file or directory"


def test_a_program_that_may_not_be_executed_is_forbidden(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    result = Child([str(program)], environ={}, timeout_s=5.0).collect()
    assert result.reason is GapReason.FORBIDDEN


def test_a_file_of_no_executable_format_is_unreadable(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x00\x01\x02")
    program.chmod(0o755)
    result = Child([str(program)], environ={}, timeout_s=5.0).collect()
    assert result.reason is GapReason.UNREADABLE


def test_an_argument_with_a_nul_byte_is_not_started() -> None:
    result = Child([sys.executable, "a\0b"], environ={}, timeout_s=5.0).collect()
    assert result.reason is GapReason.UNREADABLE
    assert "could not be started" in result.detail


def test_undecodable_output_is_replaced() -> None:
    result = run("import sys; sys.stdout.buffer.write(b'a\\xffb')")
    assert result.stdout == "a\ufffdb"


def test_standard_input_is_empty() -> None:
    assert run("import sys; print(repr(sys.stdin.read()))").stdout == "''\n"


def test_a_child_that_closes_its_outputs_and_stays_is_timed_out() -> None:
    result = run("import os, time; os.close(1); os.close(2); time.sleep(600)", timeout_s=1.0)
    assert result.reason is GapReason.TIMED_OUT


def test_an_answer_that_waited_longer_than_the_limit_counts() -> None:
    child = Child(
        [sys.executable, "-I", "-S", "-c", "print('here')"],
        environ=dict(os.environ),
        timeout_s=1.0,
    )
    time.sleep(1.5)
    assert child.collect().stdout == "here\n"
