"""Whatever happens in a stage, it is that stage that is reported, and the test ends."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from envguard.errors import InputError, ToolError
from envguard.smoke.result import Device, ErrorKind, SmokeRequest, StageStatus
from envguard.smoke.smoke_run import run_smoke
from tests.smoke.fake import FAKE_TORCH, run_fake

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.smoke.result import SmokeResult, StageError


posix_only = pytest.mark.skipif(os.name != "posix", reason="uses signals and fork")


def failed(result: SmokeResult) -> dict[str, StageError]:
    return {s.id: s.error for s in result.stages if s.status is StageStatus.FAIL and s.error}


def statuses(result: SmokeResult) -> dict[str, str]:
    return {stage.id: stage.status.value for stage in result.stages}


def test_every_stage_passes_with_a_right_torch() -> None:
    result = run_fake(stages=())
    assert statuses(result) == {
        "import": "ok",
        "cuda-init": "skip",
        "context": "ok",
        "allocation": "ok",
        "forward": "ok",
        "backward": "ok",
        "optimizer-step": "ok",
        "reference": "ok",
        "bfloat16": "ok",
        "float16": "ok",
        "matmul": "ok",
        "convolution": "ok",
        "attention": "ok",
        "checkpoint": "ok",
        "shutdown": "ok",
    }
    assert result.device == "cpu"
    assert result.detail("import", "torch") == "9.9.9+fake"


def test_every_stage_passes_on_a_pretended_gpu() -> None:
    result = run_fake(stages=(), gpu="12.8,9.0,sm_80 sm_90")
    assert failed(result) == {}
    assert result.device == "cuda:0"
    assert result.detail("cuda-init", "capability") == "9.0"
    matmul = result.stage("matmul")
    assert matmul is not None
    assert matmul.details["dtypes"] == ["float32", "float16", "bfloat16"]


def test_a_gpu_before_ampere_skips_bfloat16() -> None:
    result = run_fake(stages=("bfloat16", "matmul"), gpu="12.8,7.5,sm_75")
    stage = result.stage("bfloat16")
    assert stage is not None
    assert stage.status is StageStatus.SKIP
    assert "below 8.0" in stage.reason
    assert failed(result) == {}


def test_each_stage_has_its_own_time_and_memory() -> None:
    result = run_fake(stages=("allocation",))
    stage = result.stage("allocation")
    assert stage is not None
    assert stage.seconds is not None
    assert stage.seconds > 0
    assert stage.rss_before_bytes is not None
    assert stage.rss_peak_bytes is not None
    assert stage.rss_peak_bytes - stage.rss_before_bytes > 10 * 2**20  # it allocates 16 MiB


@posix_only
@pytest.mark.parametrize(
    ("fault", "stage", "name"),
    [
        ("import=segfault", "import", "SIGSEGV"),
        ("ones=segfault", "context", "SIGSEGV"),
        ("linear=abort", "forward", "SIGABRT"),
        ("backward=segfault", "backward", "SIGSEGV"),
        ("adamw=illegal-instruction", "optimizer-step", "SIGILL"),
        ("sgd=kill", "reference", "SIGKILL"),
        ("import=segfault-at-exit", "shutdown", "SIGSEGV"),
    ],
)
def test_death_by_a_signal_is_the_running_stages(fault: str, stage: str, name: str) -> None:
    result = run_fake(fault)
    errors = failed(result)
    assert list(errors) == [stage]
    assert errors[stage].kind is ErrorKind.SIGNAL
    assert errors[stage].type == name


@posix_only
def test_stages_after_a_crash_are_not_reached_and_those_before_stay() -> None:
    result = run_fake("backward=segfault")
    assert statuses(result) == {
        "import": "ok",
        "cuda-init": "skip",
        "context": "ok",
        "forward": "ok",
        "backward": "fail",
        "optimizer-step": "not-reached",
        "reference": "not-reached",
        "shutdown": "not-reached",
    }


@posix_only
def test_a_crash_names_the_python_frames_innermost_first() -> None:
    error = failed(run_fake("backward=segfault"))["backward"]
    assert error.frames[0].endswith("in string_at")
    assert error.frames[-1].endswith("in backward")
    assert not any("_child.py" in frame for frame in error.frames)


@pytest.mark.parametrize("fault", ["hang", "hang-with-gil"])
@posix_only
def test_a_hang_ends_at_the_stages_limit_and_says_where(fault: str) -> None:
    error = failed(run_fake(f"linear={fault}", stage_timeout_s=1))["forward"]
    assert error.kind is ErrorKind.HANG
    assert "1 s" in error.message
    assert any(frame.endswith("in _linear") for frame in error.frames)


@posix_only
def test_a_hang_ends_at_the_whole_tests_limit_and_says_where() -> None:
    error = failed(run_fake("linear=hang", total_timeout_s=2))["forward"]
    assert error.kind is ErrorKind.HANG
    assert "limit of the whole test" in error.message
    assert any(frame.endswith("in _linear") for frame in error.frames)


@posix_only
def test_a_stopped_process_that_cannot_end_itself_is_ended() -> None:
    error = failed(run_fake("linear=stop", stage_timeout_s=1))["forward"]
    assert error.kind is ErrorKind.HANG


def test_a_hang_at_exit_is_the_shutdowns() -> None:
    error = failed(run_fake("import=hang-at-exit", stage_timeout_s=1))["shutdown"]
    assert error.kind is ErrorKind.HANG


@pytest.mark.parametrize(
    ("fault", "stage"), [("import=exit", "import"), ("backward=exit", "backward")]
)
def test_a_silent_exit_with_status_0_is_a_failure(fault: str, stage: str) -> None:
    error = failed(run_fake(fault))[stage]
    assert error.kind is ErrorKind.EXIT
    assert "status 0" in error.message


def test_an_exception_keeps_type_message_and_frames() -> None:
    error = failed(run_fake("backward=raise", message="boom \u2713\nsecond line"))["backward"]
    assert error.kind is ErrorKind.EXCEPTION
    assert error.type == "RuntimeError"
    assert error.message == "boom \u2713\nsecond line"
    assert error.frames[-1].endswith("in _raise")


def test_terminal_escapes_in_a_message_are_taken_out() -> None:
    error = failed(run_fake("backward=raise", message="\x1b[2Jboom\x07"))["backward"]
    assert error.message == "\ufffd[2Jboom\ufffd"


@pytest.mark.parametrize(
    ("fault", "kind"), [("sys-exit", "SystemExit"), ("interrupt", "KeyboardInterrupt")]
)
def test_exits_and_interrupts_raised_by_a_library_are_caught(fault: str, kind: str) -> None:
    error = failed(run_fake(f"adamw={fault}"))["optimizer-step"]
    assert error.type == kind


@pytest.mark.parametrize(
    ("fault", "stage"),
    [
        ("ones=wrong", "context"),
        ("full=nan", "allocation"),
        ("linear=nan", "forward"),
        ("sgd=wrong", "reference"),
        ("matmul=wrong", "matmul"),
        ("conv2d=wrong", "convolution"),
        ("attention=wrong", "attention"),
        ("load=wrong", "checkpoint"),
    ],
)
def test_wrong_numbers_are_found_by_the_stage(fault: str, stage: str) -> None:
    error = failed(run_fake(fault, stages=(stage,)))[stage]
    assert error.kind is ErrorKind.NUMERICS


def test_a_wrong_factor_in_every_layer_is_found_by_the_reference() -> None:
    assert list(failed(run_fake("linear=wrong"))) == ["reference"]


def test_stages_that_this_torch_has_not_are_skipped() -> None:
    result = run_fake(stages=("compile", "distributed"))
    assert statuses(result)["compile"] == "skip"
    assert statuses(result)["distributed"] == "skip"


def test_a_missing_deepspeed_is_a_failure_of_its_stage_and_not_a_missing_torch() -> None:
    error = failed(run_fake(stages=("deepspeed",)))["deepspeed"]
    assert error.module == "deepspeed"


def test_independent_stages_go_on_after_an_exception() -> None:
    result = run_fake("matmul=raise", message="boom", stages=("matmul", "attention"))
    assert statuses(result)["matmul"] == "fail"
    assert statuses(result)["attention"] == "ok"


def test_rubbish_on_stdout_and_stderr_is_no_result() -> None:
    result = run_fake("ones=rubbish")
    assert failed(result) == {}
    assert "\ufffd" in result.stdout.text
    assert statuses(result)["reference"] == "ok"


def test_a_flood_of_output_keeps_only_its_end() -> None:
    result = run_fake("ones=flood")
    assert failed(result) == {}
    assert result.stdout.total_bytes == 102_000_000
    assert len(result.stdout.text) == 65536


@posix_only
def test_a_grandchild_that_left_the_group_and_holds_the_pipes_is_not_waited_for(
    tmp_path: Path,
) -> None:
    file = tmp_path / "pid"
    result = run_fake("ones=fork-away", FAKE_TORCH_PID_FILE=str(file))
    pid = int(file.read_text())
    assert _is_running(pid)
    os.kill(pid, signal.SIGKILL)
    assert failed(result) == {}


@posix_only
def test_a_grandchild_of_the_group_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    assert failed(run_fake("ones=fork", FAKE_TORCH_PID_FILE=str(file))) == {}
    wait_for_end(int(file.read_text()))


def wait_for_end(pid: int) -> None:
    """Whoever collects orphans here may need a moment for it."""
    deadline = time.monotonic() + 20
    while _is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_running(pid)


def _is_running(pid: int) -> bool:
    done = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() != "" and not done.stdout.strip().startswith("Z")


@posix_only
def test_exhausted_memory_is_the_stages() -> None:
    error = failed(run_fake("full=memory", stages=("allocation",)))["allocation"]
    assert error.type == "MemoryError"


@posix_only
def test_rubbish_in_the_side_file_does_not_hide_the_result() -> None:
    result = run_fake("linear=scribble")
    assert statuses(result)["forward"] == "ok"
    assert failed(result) == {}


@posix_only
def test_a_library_that_closes_every_file_is_that_stages_failure() -> None:
    error = failed(run_fake("linear=close-files"))["forward"]
    assert error.kind is ErrorKind.EXIT


@posix_only
def test_a_dying_stages_memory_is_what_the_parent_saw() -> None:
    stage = run_fake("linear=eat-and-hang", stage_timeout_s=2).stage("forward")
    assert stage is not None
    assert stage.rss_peak_bytes is not None
    assert stage.rss_peak_bytes > 200 * 2**20  # it holds 256 MiB


def test_an_interpreter_without_torch_fails_at_import(tmp_path: Path) -> None:
    request = SmokeRequest(sys.executable, variables=(("PYTHONPATH", str(tmp_path)),))
    error = failed(run_smoke(request))["import"]
    assert error.type == "ModuleNotFoundError"
    assert error.module == "torch"


def test_a_program_that_is_no_python_leaves_every_stage_unreached(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho no python here >&2\nexit 7\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    result = run_smoke(SmokeRequest(str(script)))
    assert {s.status for s in result.stages} == {StageStatus.NOT_REACHED}
    assert result.child_exit.returncode == 7
    assert result.stderr.text == "no python here\n"


def test_a_missing_interpreter_is_a_wrong_option(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere cannot be started: No such file"):
        run_smoke(SmokeRequest(str(tmp_path / "nowhere")))


@posix_only
def test_a_wrapper_script_that_reports_128_plus_n_is_seen_through(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\n{sys.executable} "$@"\nexit $?\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    variables = (("PYTHONPATH", str(FAKE_TORCH)), ("FAKE_TORCH_FAULTS", "backward=segfault"))
    result = run_smoke(SmokeRequest(str(script), stages=("backward",), variables=variables))
    assert result.child_exit.returncode == 139
    assert failed(result)["backward"].type == "SIGSEGV"


def test_a_device_that_torch_does_not_see_is_not_available() -> None:
    error = failed(run_fake(device="cuda:3", gpu="12.8,9.0,sm_90"))["cuda-init"]
    assert error.kind is ErrorKind.DEVICE
    assert error.message == "torch sees 1 GPU(s), so there is no cuda:3"


def test_a_gpu_asked_of_a_cpu_build_is_not_available() -> None:
    result = run_fake(device="cuda:0")
    assert failed(result)["cuda-init"].kind is ErrorKind.DEVICE
    assert statuses(result)["forward"] == "not-reached"


def test_auto_runs_on_the_cpu_where_cuda_finds_no_gpu() -> None:
    result = run_fake("init=raise", message="No CUDA GPUs are available", FAKE_TORCH_CUDA="12.8")
    assert result.device == "cpu"
    assert statuses(result)["cuda-init"] == "skip"
    assert statuses(result)["reference"] == "ok"


def test_auto_never_falls_back_to_the_cpu_when_cuda_is_broken() -> None:
    result = run_fake("init=raise", message="CUDA unknown error", FAKE_TORCH_CUDA="12.8")
    assert statuses(result)["cuda-init"] == "fail"
    assert statuses(result)["context"] == "not-reached"


def test_an_error_that_shows_when_waiting_for_the_gpu_is_the_stages() -> None:
    result = run_fake(
        "synchronize=raise",
        message="illegal memory access",
        gpu="12.8,9.0,sm_90",
        stages=("context",),
    )
    assert list(failed(result)) == ["cuda-init"]


def test_no_temporary_folder_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run_fake("linear=abort" if hasattr(signal, "SIGKILL") else "linear=exit")
    assert list(tmp_path.iterdir()) == []


def test_no_place_for_temporary_files_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(ToolError, match="no temporary folder can be made: No such file"):
        run_fake()


def test_the_child_does_not_see_the_folder_it_lies_in(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import progress\n")
    variables = (("PYTHONPATH", str(tmp_path)),)
    result = run_smoke(
        SmokeRequest(sys.executable, Device("cpu"), stages=("import",), variables=variables)
    )
    assert failed(result)["import"].module == "progress"
