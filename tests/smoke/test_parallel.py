"""Process groups: one rank, and several under a launcher whose ranks fail in every way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from envguard.smoke.result import ErrorKind, StageStatus
from envguard.smoke.smoke_findings import smoke_findings
from tests.smoke.fake import MATRIX, run_fake
from tests.smoke.test_smoke_run import failed, wait_for_end

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.smoke.result import SmokeResult, StageError

posix_only = pytest.mark.skipif(os.name != "posix", reason="uses signals")


def run_ranks(faults: str = "", **words: object) -> SmokeResult:
    words.setdefault("stages", ("all-reduce",))
    return run_fake(faults, FAKE_TORCH_DISTRIBUTED="1", **words)  # type: ignore[arg-type]  # words of run_fake


def error_of(result: SmokeResult) -> StageError:
    errors = failed(result)
    assert list(errors) == ["all-reduce"]
    return errors["all-reduce"]


def test_a_group_of_one_reduces() -> None:
    assert failed(run_ranks(stages=("distributed",))) == {}


def test_a_group_of_one_that_reduces_wrongly_is_found() -> None:
    result = run_ranks("all_reduce=wrong", stages=("distributed",))
    assert failed(result)["distributed"].kind is ErrorKind.NUMERICS


@posix_only
def test_a_group_that_cannot_start_names_the_part() -> None:
    result = run_ranks("init_process_group=segfault", stages=("distributed",))
    (finding,) = smoke_findings(result, MATRIX)
    assert finding.title == "distributed (start): the process died of SIGSEGV (status -11)"


def test_two_ranks_on_the_cpu_reduce_together() -> None:
    stage = run_ranks().stage("all-reduce")
    assert stage is not None
    assert (stage.status, stage.error) == (StageStatus.OK, None)
    assert (stage.details["backend"], stage.details["ranks"]) == ("gloo", 2)


def test_one_gpu_alone_is_skipped() -> None:
    stage = run_ranks(gpu="12.8,9.0,sm_90").stage("all-reduce")
    assert stage is not None
    assert stage.status is StageStatus.SKIP


def test_a_wrong_sum_names_the_rank() -> None:
    error = error_of(run_ranks("all_reduce-1=wrong"))
    assert error.kind is ErrorKind.NUMERICS
    assert error.message.startswith("the all-reduce in rank 1 differs")


def test_an_exception_in_a_rank_keeps_its_words() -> None:
    error = error_of(run_ranks("all_reduce-1=raise", message="NCCL error: unhandled cuda error"))
    assert (error.kind, error.type) == (ErrorKind.EXCEPTION, "RuntimeError")
    assert error.message == "rank 1 of 2: NCCL error: unhandled cuda error"


@posix_only
def test_a_crash_of_a_rank_names_rank_signal_and_frames() -> None:
    (finding,) = smoke_findings(run_ranks("all_reduce-1=segfault"), MATRIX)
    assert finding.code == "SMK002"
    assert finding.title == "all-reduce: rank 1 of 2 died of SIGSEGV (status -11)"
    frames = [e.value for e in finding.evidence if e.fact.startswith("smoke.frame")]
    assert frames[0].endswith("in string_at")
    assert not any("_rank_child.py" in frame for frame in frames)


@posix_only
def test_a_rank_that_hangs_ends_in_its_time_and_says_where() -> None:
    error = error_of(run_ranks("all_reduce-0=hang", stage_timeout_s=4))
    assert error.kind is ErrorKind.HANG
    assert error.message == "rank 0 of 2 did not end in its time"
    assert any(frame.endswith("in all_reduce") for frame in error.frames)


@posix_only
def test_a_launcher_that_hangs_is_ended() -> None:
    error = error_of(run_ranks("torchrun=hang", stage_timeout_s=3))
    assert (error.kind, error.message) == (ErrorKind.HANG, "torchrun did not end in its time")


def test_a_launcher_that_gives_up_keeps_its_last_words() -> None:
    error = error_of(run_ranks("torchrun=raise", message="the hostname cannot be resolved"))
    assert error.kind is ErrorKind.EXIT
    assert error.message == (
        "torchrun exited with status 1: RuntimeError: the hostname cannot be resolved"
    )


@posix_only
def test_a_flood_of_the_ranks_keeps_only_its_end() -> None:
    result = run_ranks("all_reduce-0=flood")
    assert failed(result) == {}
    assert result.stderr.total_bytes == 65536


@posix_only
def test_no_rank_outlives_a_test_that_is_cut_short(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    result = run_ranks(
        "all_reduce-1=tell-and-hang", total_timeout_s=4, FAKE_TORCH_PID_FILE=str(file)
    )
    assert "limit of the whole test" in error_of(result).message
    wait_for_end(int(file.read_text()))
