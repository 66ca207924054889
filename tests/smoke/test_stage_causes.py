"""A failed stage's cause is named when the evidence is clear, and only then."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from envguard.facts.findings import Finding, Status
from envguard.matrix.loader import Matrix
from envguard.smoke.result import OomCounts
from envguard.smoke.smoke_findings import find_cause, smoke_findings
from tests.smoke.fake import MATRIX, run_fake

if TYPE_CHECKING:
    from envguard.smoke.result import SmokeResult


posix_only = pytest.mark.skipif(os.name != "posix", reason="uses signals")


def failure(result: SmokeResult) -> Finding:
    (finding,) = [f for f in smoke_findings(result, MATRIX) if f.status is Status.FAIL]
    return finding


ROOT = Path(__file__).resolve().parents[2]
NO_FABRIC = "Error 802: system not yet initialized"
OWN_CAUSE = """
[[cause]]
slug = "flux-missing"
scope = "node"
text = "The flux capacitor is dry."
source = "own-smoke"
confidence = "script"

[[cause.says]]
code = "SMK001"
title = "the flux capacitor is dry"
detail = "It needs 1.21 gigawatts."

[[cause.shown]]
any = ["flux-words"]

[[signature]]
id = "flux-words"
regex = "flux capacitor is dry"
literals = ["flux capacitor"]
sample = "the flux capacitor is dry"
source = "own-smoke"
confidence = "script"
"""
NO_KERNEL = "CUDA error: no kernel image is available for execution on the device"


@pytest.mark.parametrize(
    ("gpu", "cause"),
    [
        ("12.8,7.0,sm_75 sm_80 sm_86 sm_90 sm_100 sm_120", "arch-missing-old-gpu"),
        ("12.6,12.0,sm_50 sm_60 sm_70 sm_80 sm_86 sm_90", "arch-missing-new-gpu"),
        ("12.8,10.0,sm_50 sm_80 sm_90a sm_120", "arch-missing-new-gpu"),
        ("12.8,8.6,sm_75 sm_80 sm_90", "extension-lacks-code-for-gpu"),  # sm_80 runs on 8.6
    ],
)
def test_no_kernel_image_is_judged_by_capability_and_targets(gpu: str, cause: str) -> None:
    finding = failure(run_fake("ones=raise", message=NO_KERNEL, gpu=gpu, stages=("context",)))
    assert finding.cause == cause
    assert finding.code == "SMK001"


def test_no_kernel_image_without_targets_names_no_architecture_cause() -> None:
    finding = failure(
        run_fake("ones=raise", message=NO_KERNEL, gpu="12.8,7.0,", stages=("context",))
    )
    assert finding.cause == "smoke-stage-failed"


@pytest.mark.parametrize(
    ("runtime", "found", "cause"),
    [
        ("12.8", "11040", "driver-too-old-for-cuda-major"),
        ("13.0", "12080", "driver-too-old-for-cuda-major"),
        ("12.8", "12000", "driver-too-old-for-cuda"),
    ],
)
def test_an_old_driver_is_judged_by_the_cuda_majors(runtime: str, found: str, cause: str) -> None:
    message = (
        f"The NVIDIA driver on your system is too old (found version {found}). Please update "
        "your GPU driver"
    )
    finding = failure(
        run_fake("init=raise", message=message, FAKE_TORCH_CUDA=runtime, stages=("context",))
    )
    assert finding.cause == cause
    assert f"CUDA {runtime}" in finding.detail


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            "Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was "
            "attempted on non supported HW",
            "compat-libcuda-in-image-on-geforce",
        ),
        ("Error 802: system not yet initialized", "fabric-manager-missing"),
        (
            "Error 803: system has unsupported display driver / cuda driver combination",
            "nvml-kernel-userspace-mismatch",
        ),
        ("CUDA error: all CUDA-capable devices are busy or unavailable", "gpu-busy"),
        (
            "CUDA unknown error - this may be due to an incorrectly set up environment",
            "smoke-stage-failed",
        ),
    ],
)
def test_words_of_cuda_name_the_cause(message: str, cause: str) -> None:
    result = run_fake("init=raise", message=message, FAKE_TORCH_CUDA="12.8", stages=("context",))
    assert failure(result).cause == cause


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            "/env/lib/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommResume",
            "nccl-shadowed",
        ),
        (
            "/env/nvidia/cusparse/lib/libcusparse.so.12: undefined symbol: "
            "__nvJitLinkComplete_12_4, version libnvJitLink.so.12",
            "ld-library-path-shadow",
        ),
        (
            "libcudart.so.11.0: cannot open shared object file: No such file or directory",
            "cudart-major-mismatch",
        ),
        (
            "libcudart.so.13: cannot open shared object file: No such file or directory",
            "cudart-major-mismatch",
        ),
        (
            "/env/x.so: undefined symbol: _ZN3c104cuda9SetDeviceEab",
            "abi-torch-version",
        ),
        (
            "/env/x.so: undefined symbol: _ZN3c1021throwNullDataPtrErrorEv",
            "abi-torch-version",
        ),
        (
            "/env/x.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs",
            "abi-cxx11-flag",
        ),
        (
            "/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /env/x.so)",
            "libstdcxx-mismatch",
        ),
        (
            "/env/torch/lib/libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent",
            "vendor-lib-bug",
        ),
        (
            "/env/x.so: undefined symbol: _ZN2at4_ops5zeros4callEv",
            "abi-torch-version",
        ),
        (
            "/env/x.so: undefined symbol: _ZN10torchaudio4initEv",
            "smoke-stage-failed",
        ),
        ("/lib/libc.so.6: version `GLIBC_2.38' not found", "glibc-too-old"),
        ("libfoo.so.1: cannot open shared object file", "smoke-stage-failed"),
    ],
)
def test_words_of_the_loader_name_the_cause(message: str, cause: str) -> None:
    finding = failure(run_fake("import=import-error", message=message, stages=("import",)))
    assert finding.cause == cause
    assert message in finding.title


def test_torch_that_is_missing_is_not_a_dependency_that_is() -> None:
    result = run_fake("import=import-missing", stages=("import",))
    assert failure(result).cause == "smoke-stage-failed"
    assert failure(result).code == "SMK001"


@posix_only
@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("backward=segfault", "unknown-segfault"),
        ("backward=abort", "smoke-stage-failed"),
        ("backward=illegal-instruction", "cpu-lacks-instructions"),
        ("backward=kill", "killed-from-outside"),
        ("backward=exit", "smoke-stage-failed"),
        ("sgd=wrong", "smoke-wrong-numerics"),
        ("full=memory", "host-allocation-refused"),
    ],
)
def test_the_kind_of_failure_names_what_it_can(fault: str, cause: str) -> None:
    finding = failure(run_fake(fault, stages=("allocation", "reference")))
    assert finding.cause == cause


@posix_only
def test_a_crash_while_cuda_starts_is_the_drivers() -> None:
    result = run_fake("init=segfault", FAKE_TORCH_CUDA="12.8", stages=("context",))
    assert failure(result).cause == "libcuda-crash"


@posix_only
def test_a_crashs_last_words_are_evidence() -> None:
    result = run_fake("linear=say-and-abort", message="terminate called: std::bad_alloc")
    finding = failure(result)
    assert finding.cause == "host-allocation-refused"
    assert finding.detail.endswith("Last line on stderr: terminate called: std::bad_alloc")


@posix_only
def test_sigkill_is_host_memory_only_when_the_cgroup_counted_a_kill() -> None:
    result = run_fake("backward=kill")
    stage = result.stage("backward")
    assert stage is not None
    unknown = find_cause(replace(result, oom=OomCounts()), stage, MATRIX)
    at_limit = find_cause(replace(result, oom=OomCounts(kills=1, limit_hits=1)), stage, MATRIX)
    of_machine = find_cause(replace(result, oom=OomCounts(kills=1)), stage, MATRIX)
    assert unknown.cause == "killed-from-outside"
    assert at_limit.cause == "container-memory-limit"
    assert of_machine.cause == "host-memory-exhausted"


@posix_only
def test_a_kill_from_outside_is_not_explained_by_what_the_program_wrote_before() -> None:
    result = run_fake("backward=kill")
    stage = result.stage("backward")
    assert stage is not None
    warned = replace(result.stderr, text="UserWarning: Torch not compiled with CUDA enabled\n")
    killed = replace(result, oom=OomCounts(kills=1), stderr=warned)
    unknown = replace(result, oom=OomCounts(), stderr=warned)
    assert find_cause(killed, stage, MATRIX).cause == "host-memory-exhausted"
    assert find_cause(unknown, stage, MATRIX).cause == "killed-from-outside"


def test_the_sentences_are_those_of_the_tables() -> None:
    finding = failure(run_fake("init=raise", message=NO_FABRIC, FAKE_TORCH_CUDA="12.8"))
    row = MATRIX.causes.message("fabric-manager-missing")
    assert finding.detail.startswith(row.detail)
    assert finding.remedy is not None
    assert (finding.remedy.text, finding.remedy.command) == (row.remedy, row.command)


def test_a_command_is_for_the_interpreter_that_was_tested() -> None:
    message = "/env/x.so: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12"
    result = run_fake("import=import-error", message=message, stages=("import",))
    remedy = failure(result).remedy
    assert remedy is not None
    assert remedy.command[:4] == ("env", "-u", "LD_LIBRARY_PATH", result.python)


def test_a_cause_that_only_a_copy_of_the_tables_knows_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    shutil.copytree(ROOT / "compat_matrix", folder, ignore=shutil.ignore_patterns("*.py", "*.json"))
    with (folder / "causes" / "smoke.toml").open("a") as table:
        table.write(OWN_CAUSE)
    matrix = Matrix.load(folder)
    result = run_fake("backward=raise", message="the flux capacitor is dry")
    (finding,) = smoke_findings(result, matrix)
    assert (finding.code, finding.cause) == ("SMK001", "flux-missing")
    assert finding.detail.startswith("It needs 1.21 gigawatts.")
