"""Log and environment reason together; root against collateral; what is not invented."""

from __future__ import annotations

import pytest

from envguard.facts.facts import Facts
from envguard.facts.findings import Status
from envguard.facts.machine import Limits, Machine
from envguard.ingest.stated import parse_stated, stated_facts
from envguard.ingest.stated_pins import add_pins
from tests.crash.logs import report_of

NO_CODE = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB.\n"


def facts(*pins: str, gpu: str | None = None, driver: str | None = None) -> Facts:
    stated = parse_stated(gpu=[gpu] if gpu else [], driver=driver, platform="linux-x86_64")
    found, _ = stated_facts(stated)
    return Facts(found.machine, add_pins(None, pins) if pins else None, found.gaps)


def causes(report: object, status: Status) -> list[str]:
    return [f.cause for f in report.findings if f.status is status]  # type: ignore[attr-defined]  # a Report


def test_no_kernel_image_with_gpu_and_build_is_one_answer_with_its_fix() -> None:
    report = report_of(NO_CODE, facts=facts("torch==2.11.0+cu128", gpu="Tesla V100-PCIE-32GB"))
    assert report.root_cause == "arch-missing-old-gpu"
    assert causes(report, Status.FAIL) == ["arch-missing-old-gpu"]
    assert report.recommended is not None
    assert (report.recommended.torch, report.recommended.backend) == ("2.11.0", "cu126")
    (finding,) = [f for f in report.findings if f.status is Status.FAIL]
    assert any(item.fact == "line 1" for item in finding.evidence)


def test_a_gpu_alone_tells_old_from_new() -> None:
    old = report_of("cudaErrorNoKernelImageForDevice\n", facts=facts(gpu="Tesla P100-PCIE-16GB"))
    new = report_of("cudaErrorNoKernelImageForDevice\n", facts=facts(gpu="NVIDIA GeForce RTX 5090"))
    assert old.root_cause == "arch-missing-old-gpu"
    assert new.root_cause == "arch-missing-new-gpu"
    assert old.recommended is not None
    assert old.recommended.backend == "cu126"


def test_an_environment_that_fails_and_does_not_explain_the_log_is_a_warning() -> None:
    report = report_of(OOM, facts=facts("torch==2.11.0+cu128", gpu="Tesla V100-PCIE-32GB"))
    assert report.root_cause == "gpu-oom-states-plus-activations"
    assert "arch-missing-old-gpu" in causes(report, Status.WARN)


def test_a_segfault_at_the_start_under_a_driver_too_old_is_told_from_an_unknown_one() -> None:
    old = report_of(
        "Segmentation fault\n",
        exit_code=-11,
        phase="import",
        facts=facts("torch==2.7.1+cu128", gpu="H100", driver="470.57.02"),
    )
    fine = report_of(
        "Segmentation fault\n",
        exit_code=-11,
        phase="import",
        facts=facts("torch==2.7.1+cu128", gpu="H100", driver="570.86.15"),
    )
    assert old.root_cause == "driver-too-old-for-cuda-major"
    assert fine.verdict is Status.UNKNOWN
    assert "unknown-segfault" in causes(fine, Status.UNKNOWN)


def test_an_environment_that_fails_is_suspected_where_nothing_else_is_known() -> None:
    report = report_of(
        "Segmentation fault\n",
        exit_code=-11,
        phase="save",
        facts=facts("torch==2.7.1+cu128", gpu="H100", driver="470.57.02"),
    )
    assert report.verdict is Status.UNKNOWN
    assert "driver-too-old-for-cuda-major" in causes(report, Status.UNKNOWN)


def test_a_torch_without_code_for_the_gpu_is_the_cause_unless_the_run_was_at_work() -> None:
    odd = "RuntimeError: something odd happened in the sampler\n"
    described = facts("torch==2.5.1+cu124", gpu="GeForce RTX 5090")
    assert report_of(odd, facts=described).root_cause == "arch-missing-new-gpu"
    assert report_of(odd, phase="train", facts=described).root_cause is None
    assert report_of("", exit_code=-9, facts=described).root_cause is None


@pytest.mark.parametrize("phase", [None, "train"])
def test_sigkill_alone_is_not_called_host_memory(phase: str | None) -> None:
    report = report_of("step 100\n", exit_code=-9, phase=phase)
    assert report.verdict is Status.UNKNOWN
    assert report.root_cause is None
    assert len(report.findings) >= 3


@pytest.mark.parametrize(
    ("phase", "cause"),
    [("load", "host-oom-load"), ("save", "host-oom-save"), ("resume", "host-oom-resume")],
)
def test_a_phase_orders_what_may_have_needed_the_memory_and_proves_nothing(
    phase: str, cause: str
) -> None:
    report = report_of("step 100\n", exit_code=137, phase=phase)
    assert (report.verdict, report.root_cause) == (Status.UNKNOWN, None)
    assert report.findings[0].cause == cause


def test_a_half_empty_host_speaks_against_host_memory_and_a_reading_before_the_load_does_not() -> (
    None
):
    row = "Mem:  503Gi  21Gi  470Gi  1Gi  12Gi  480Gi\n"
    steps = "{'loss': 1.2, 'learning_rate': 1e-05, 'epoch': 0.1}\n"
    spare = report_of(f"{steps}{row}", exit_code=-9)
    before = report_of(f"{row}Loading checkpoint shards: 10%\n", exit_code=-9)
    assert spare.findings[0].cause == "killed-from-outside"
    assert "23.0 GiB of about 503 GiB" in spare.findings[-1].detail
    assert before.findings[0].cause == "host-oom-load"


def test_a_fill_level_orders_and_establishes_nothing() -> None:
    text = "{'loss': 1.2, 'epoch': 0.1}\nzero_stage 3, host memory is full\n"
    report = report_of(text, exit_code=-9)
    assert (report.verdict, report.root_cause) == (Status.UNKNOWN, None)
    assert report.findings[0].cause == "host-oom-optimizer-offload"
    assert "host memory is full" in report.findings[0].detail


@pytest.mark.parametrize(
    "words",
    [
        "slurmstepd: error: *** JOB 1 ON n CANCELLED AT 2026-11-29T10:00:00 DUE TO TIME LIMIT ***",
        "slurmstepd: error: *** JOB 1 ON n CANCELLED AT 2026-11-29T10:00:00 DUE TO PREEMPTION ***",
        "systemd-oomd[678]: Killed /system.slice/x.service due to memory pressure",
    ],
)
def test_another_killer_that_is_named_keeps_the_phase_from_speaking(words: str) -> None:
    report = report_of(f"{words}\n", exit_code=137, phase="save")
    assert report.root_cause != "host-oom-save"
    assert report.verdict is Status.FAIL


def test_init_without_deepspeed_carries_nothing() -> None:
    assert report_of("step\n", exit_code=-9, phase="init").verdict is Status.UNKNOWN


def test_gpu_memory_is_the_root_and_the_watchdog_of_the_others_follows() -> None:
    text = (
        f"[rank3]: {OOM}"
        "[Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=1, OpType=ALLREDUCE\n"
    )
    report = report_of(text, exit_code=1)
    assert report.root_cause == "gpu-oom-states-plus-activations"


def test_deepspeeds_sigkill_handler_is_no_evidence_of_a_kill() -> None:
    text = (
        "[launch.py:315:sigkill_handler] Killing subprocess 4101\n"
        "KeyError: 'labels'\n"
        "[launch.py:321:sigkill_handler] ['python', '--local_rank=0'] exits with return code = 1\n"
    )
    report = report_of(text, exit_code=1)
    assert report.verdict is Status.UNKNOWN
    assert causes(report, Status.UNKNOWN) == ["python-exception"]


def test_a_bus_error_with_a_small_shm_of_the_subject_is_shared_memory() -> None:
    text = (
        "Unexpected bus error encountered in worker. "
        "This might be caused by insufficient shared memory (shm)\n"
    )
    small = Facts(Machine(limits=Limits(shm_bytes=64 * 2**20)))
    large = Facts(Machine(limits=Limits(shm_bytes=250 * 2**30)))
    assert report_of(text, exit_code=-7, facts=small).root_cause == "shm-too-small"
    unknown = report_of(text, exit_code=-7, facts=large)
    assert unknown.verdict is Status.UNKNOWN
    assert unknown.findings[0].cause == "sigbus-from-mmap-storage"


def test_every_hypothesis_says_what_speaks_for_it_and_one_experiment() -> None:
    for code in (-9, -11, -7, -6, -4, -15, 1):
        report = report_of("nothing of note\n", exit_code=code)
        assert report.verdict is Status.UNKNOWN
        for finding in report.findings:
            assert finding.title.startswith("maybe: ")
            assert finding.detail.startswith("For it: ")
            assert finding.remedy is not None
            assert finding.remedy.text.startswith("to find out, ")


def test_the_summary_names_rank_signal_and_phase() -> None:
    text = (
        "Loading checkpoint shards:  10%\n"
        "failed (exitcode: -9) local_rank: 2 (pid: 77) of binary: /env/bin/python\n"
    )
    crash = report_of(text, exit_code=1).extra["crash"]
    assert crash["headline"] == "rank 2 died of SIGKILL (-9) while it loaded the model"
    assert (crash["signal"], crash["phase"], crash["phase_from"]) == ("SIGKILL", "load", "log")


@pytest.mark.parametrize(
    ("exit_code", "headline"),
    [
        (0, "the program ended with exit status 0"),
        (None, "nothing says how the program ended"),
        (1, "the program failed while it saved a checkpoint"),
    ],
)
def test_a_log_without_a_death_is_told_from_one_of_a_failure(
    exit_code: int | None, headline: str
) -> None:
    text = "{'loss': 1.22, 'epoch': 1.0}\nSaving model checkpoint to out\ndone\n"
    report = report_of(text, exit_code=exit_code)
    assert report.extra["crash"]["headline"] == headline
    assert report.verdict is (Status.OK if exit_code == 0 else Status.UNKNOWN)


def test_an_exit_status_alone_is_a_case() -> None:
    assert report_of("", exit_code=139).verdict is Status.UNKNOWN
    assert report_of("", exit_code=0).verdict is Status.OK
    assert report_of("").verdict is Status.UNKNOWN


@pytest.mark.parametrize(
    "line",
    [
        "nvidia-smi: No devices were found",
        "terminate called after throwing an instance of 'std::runtime_error'",
        "  what():  basic_string::_M_construct null not valid",
        "thread 'main' panicked at src/lib.rs:4:9:",
        'Exception in thread "main" java.lang.IllegalStateException: no session',
        "npm ERR! code ELIFECYCLE",
        "src/op.cpp:41:7: error: 'foo' was not declared in this scope",
        "node3:91:140 [0] NCCL WARN Cuda failure 'unknown'",
        "train.py: Assertion `n > 0' failed.",
        "requests: 503 Server Error: Service Unavailable for url: http://index.example",
        "loading the data set failed",
        "sbatch: command not found",
        "FATAL: could not open the socket",
    ],
)
def test_a_line_that_no_rule_knows_is_quoted_and_never_all_clear(line: str) -> None:
    report = report_of(f"step 1\n{line}\n")
    assert report.verdict is Status.UNKNOWN
    assert line.strip()[:40] in f"{report.findings[0].detail} {report.findings[0].evidence}"


@pytest.mark.parametrize(
    "line",
    [
        "0 errors, 0 failed",
        "error_rate=0.02 loss error 0.1",
        "mean squared error: 0.5",
        "Error: 0.031",
        "finished with 0 errors",
        "failed: 0",
    ],
)
def test_a_line_of_figures_is_no_error(line: str) -> None:
    report = report_of(f"{line}\n")
    assert [f.cause for f in report.findings] == ["ending-not-told"]


@pytest.mark.parametrize(
    "end",
    [
        "{'train_runtime': 4410.2, 'epoch': 3.0}",
        "Training completed.",
        "===== 41 passed, 2 skipped in 12.31s =====",
        "Exit Code: 0",
    ],
)
def test_a_closing_line_is_a_sign_that_it_ended_well(end: str) -> None:
    assert report_of(f"step 1\n{end}\n").verdict is Status.OK


def test_an_environment_alone_is_no_failed_run() -> None:
    assert report_of("PyTorch version: 2.8.0+cu128\nPython version: 3.11\n").verdict is Status.OK


def test_the_first_error_of_a_chain_is_named_and_what_came_of_it_after() -> None:
    report = report_of(
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in <module>\n'
        "    load()\n"
        "KeyError: 'labels'\n"
        "\nThe above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        '  File "b.py", line 1, in <module>\n'
        "    main()\n"
        "RuntimeError: the data set could not be read\n"
    )
    first = report.findings[0]
    assert first.cause == "python-exception"
    assert first.detail.index("KeyError") < first.detail.index("RuntimeError")


def test_a_warning_in_the_exception_that_ended_the_run_is_a_failure() -> None:
    scale = "Exception: Current loss scale already at minimum - cannot decrease scale anymore."
    nan = "{'loss': nan, 'epoch': 0.1}\n"
    assert report_of(f"{nan}{scale}\n").root_cause == "loss-not-finite"
    assert report_of(nan).verdict is Status.WARN


def test_a_warning_that_the_log_shows_to_have_come_true_is_the_cause() -> None:
    report = report_of(
        "CUDA error: the provided PTX was compiled with an unsupported toolchain.\n",
        facts=facts("torch==2.7.1+cu128", gpu="H100", driver="535.104.05"),
    )
    assert report.root_cause == "minor-compat-feature-gap"
    assert causes(report, Status.FAIL) == ["minor-compat-feature-gap"]


@pytest.mark.parametrize("code", [137, 247])
def test_a_status_that_does_not_look_like_a_signal_is_decoded(code: int) -> None:
    report = report_of("step 100\n", exit_code=code)
    (decoded,) = [f for f in report.findings if f.cause == "exit-code-decoding"]
    assert f"Here {code} is SIGKILL, -9" in decoded.detail
    assert report.verdict is Status.UNKNOWN


def test_ranks_that_were_stopped_are_counted_as_followers() -> None:
    text = (
        "Sending process 1378 closing signal SIGTERM\n"
        "Sending process 1379 closing signal SIGTERM\n"
        "failed (exitcode: -11) local_rank: 0 (pid: 1377) of binary: /env/bin/python\n"
    )
    crash = report_of(text, exit_code=1).extra["crash"]
    assert (crash["followers"], crash["launcher"]) == (2, "torchrun")
