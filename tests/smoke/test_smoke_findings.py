"""Findings: one code for each way in which a smoke test can go."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from envguard.facts.findings import Status, verdict_of
from envguard.facts.machine import Gpu, MigDevice
from envguard.smoke.child_exit import name_exit
from envguard.smoke.result import SmokeRequest, StageResult, StageStatus
from envguard.smoke.smoke_findings import nvml_index, smoke_findings
from envguard.smoke.smoke_run import run_smoke
from tests.smoke.fake import MATRIX, run_fake

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.smoke.result import SmokeResult


posix_only = pytest.mark.skipif(os.name != "posix", reason="uses signals")


def codes(result: SmokeResult) -> list[tuple[str, str]]:
    return [(finding.code, finding.status.value) for finding in smoke_findings(result, MATRIX)]


def test_a_passed_test_is_one_finding() -> None:
    (finding,) = smoke_findings(run_fake(), MATRIX)
    assert (finding.code, finding.status, finding.cause) == ("SMK000", Status.OK, "smoke-passed")
    assert finding.title.startswith("torch 9.9.9+fake passed 7 stages on cpu in ")


def test_a_passed_test_on_a_gpu_names_it() -> None:
    (finding,) = smoke_findings(run_fake(gpu="12.8,9.0,sm_90"), MATRIX)
    assert "on cuda:0 (Fake GPU)" in finding.title


def test_import_alone_names_no_device() -> None:
    (finding,) = smoke_findings(run_fake(stages=("import",)), MATRIX)
    assert finding.title.startswith("torch 9.9.9+fake passed 2 stages in ")


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("backward=raise", "SMK001"),
        ("sgd=wrong", "SMK004"),
        ("backward=exit", "SMK006"),
    ],
)
def test_each_way_of_failing_has_its_code(fault: str, code: str) -> None:
    assert codes(run_fake(fault, message="boom")) == [(code, "fail")]


@posix_only
def test_a_signal_has_its_code() -> None:
    (finding,) = smoke_findings(run_fake("backward=segfault"), MATRIX)
    assert finding.code == "SMK002"
    assert finding.title == "backward: the process died of SIGSEGV (status -11)"
    facts = {item.fact: item.value for item in finding.evidence}
    assert facts["smoke.stage"] == "backward"
    assert facts["smoke.signal"] == "SIGSEGV"
    assert facts["smoke.frame[0]"].endswith("in string_at")


def test_a_hang_has_its_code() -> None:
    (finding,) = smoke_findings(run_fake("linear=hang", stage_timeout_s=1), MATRIX)
    assert finding.code == "SMK003"
    assert finding.title == "forward: it did not end within 1 s"


def test_stages_that_fail_with_the_same_words_are_one_finding() -> None:
    result = run_fake(
        "matmul=raise conv2d=raise", message="CUBLAS", stages=("matmul", "convolution")
    )
    (finding,) = smoke_findings(result, MATRIX)
    assert finding.title == "matmul, convolution: RuntimeError: CUBLAS"


def test_stages_that_fail_in_different_ways_are_all_reported() -> None:
    result = run_fake(
        "matmul=raise attention=wrong", message="boom", stages=("matmul", "attention")
    )
    assert codes(result) == [("SMK001", "fail"), ("SMK004", "fail")]


def test_a_missing_torch_has_its_code_and_a_remedy(tmp_path: Path) -> None:
    request = SmokeRequest(sys.executable, variables=(("PYTHONPATH", str(tmp_path)),))
    (finding,) = smoke_findings(run_smoke(request), MATRIX)
    assert (finding.code, finding.cause) == ("SMK007", "torch-missing")
    assert finding.title == f"torch is not installed in {sys.executable}"
    assert finding.remedy is not None


def test_a_gpu_asked_of_a_cpu_build_fails_as_the_wrong_build() -> None:
    (finding,) = smoke_findings(run_fake(device="cuda:0"), MATRIX)
    assert (finding.code, finding.cause) == ("SMK008", "cpu-wheel-selected")
    assert finding.status is Status.FAIL


def test_a_gpu_that_is_not_there_fails() -> None:
    (finding,) = smoke_findings(run_fake(device="cuda:1", gpu="12.8,9.0,sm_90"), MATRIX)
    assert (finding.code, finding.cause) == ("SMK008", "device-not-available")


def test_no_gpu_at_all_fails_when_one_was_asked_for() -> None:
    message = "Found no NVIDIA driver on your system."
    result = run_fake("init=raise", message=message, device="cuda:0", FAKE_TORCH_CUDA="12.8")
    (finding,) = smoke_findings(result, MATRIX)
    assert (finding.code, finding.cause) == ("SMK008", "no-gpu-visible")


def test_no_gpu_at_all_is_a_warning_with_auto() -> None:
    message = "Found no NVIDIA driver on your system."
    result = run_fake("init=raise", message=message, FAKE_TORCH_CUDA="12.8")
    assert codes(result) == [("SMK000", "ok"), ("SMK009", "warn")]
    assert verdict_of(smoke_findings(result, MATRIX)) is Status.WARN


def test_the_cpu_asked_of_a_cuda_build_is_no_warning() -> None:
    assert codes(run_fake(device="cpu", FAKE_TORCH_CUDA="12.8")) == [("SMK000", "ok")]


def test_another_vendors_build_is_not_judged() -> None:
    result = run_fake(FAKE_TORCH_HIP="6.4")
    assert codes(result) == [("SMK000", "ok"), ("SMK010", "unknown")]


def test_a_skipped_stage_does_not_count() -> None:
    result = run_fake(stages=("bfloat16",), gpu="12.8,7.5,sm_75")
    assert codes(result) == [("SMK000", "ok"), ("SMK011", "skip")]


def test_a_program_that_is_no_python_could_not_be_tested(tmp_path: Path) -> None:
    result = run_smoke(SmokeRequest("/bin/false" if os.name == "posix" else "where.exe"))
    (finding,) = smoke_findings(result, MATRIX)
    assert (finding.code, finding.status) == ("SMK005", Status.UNKNOWN)


def test_an_end_between_two_stages_is_not_passed() -> None:
    result = run_fake()
    cut = tuple(
        stage
        if stage.id in {"import", "cuda-init", "context"}
        else StageResult(stage.id, stage.title, StageStatus.NOT_REACHED)
        for stage in result.stages
    )
    (finding,) = smoke_findings(replace(result, stages=cut, child_exit=name_exit(-11)), MATRIX)
    assert (finding.code, finding.status) == ("SMK006", Status.UNKNOWN)
    assert "died of SIGSEGV" in finding.title


GPUS = (
    Gpu(index=0, uuid="GPU-11111111-aaaa-bbbb-cccc-000000000000"),
    Gpu(index=1, uuid="GPU-22222222-aaaa-bbbb-cccc-000000000000"),
    Gpu(index=3, mig_devices=(MigDevice("MIG-33333333-aaaa-bbbb-cccc-000000000000", None, None),)),
)


@pytest.mark.parametrize(
    ("uuid", "index"),
    [
        ("22222222-aaaa-bbbb-cccc-000000000000", 1),  # as torch prints it
        ("GPU-11111111-AAAA-bbbb-cccc-000000000000", 0),
        ("33333333-aaaa-bbbb-cccc-000000000000", 3),
        ("44444444-aaaa-bbbb-cccc-000000000000", None),
        (None, None),
    ],
)
def test_a_gpu_is_found_by_its_uuid(uuid: str | None, index: int | None) -> None:
    assert nvml_index(uuid, GPUS) == index


@pytest.mark.parametrize("fault", ["", "backward=raise"])
def test_a_finding_about_the_gpu_names_its_nvml_index(fault: str) -> None:
    gpu = "12.8,9.0,sm_90,22222222-aaaa-bbbb-cccc-000000000000"
    (finding,) = smoke_findings(run_fake(fault, message="boom", gpu=gpu), MATRIX, GPUS)
    assert finding.gpus == (1,)


def test_a_torch_that_knows_no_uuid_leaves_the_gpus_empty() -> None:
    (finding,) = smoke_findings(run_fake(gpu="12.8,9.0,sm_90"), MATRIX, GPUS)
    assert finding.gpus == ()


def test_the_gpus_of_a_run_on_the_cpu_are_empty() -> None:
    (finding,) = smoke_findings(run_fake(), MATRIX, GPUS)
    assert finding.gpus == ()
