"""The stages against a real torch: on the CPU, and on a GPU where there is one."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from envguard.smoke.result import Device, SmokeRequest, StageStatus
from envguard.smoke.smoke_run import run_smoke

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = os.environ.get("ENVGUARD_TEST_TORCH_PYTHON", "")
needs_torch = pytest.mark.skipif(
    not PYTHON, reason="ENVGUARD_TEST_TORCH_PYTHON names no interpreter with torch"
)
DEEPSPEED_PYTHON = os.environ.get("ENVGUARD_TEST_DEEPSPEED_PYTHON", "")
needs_deepspeed = pytest.mark.skipif(
    not DEEPSPEED_PYTHON,
    reason="ENVGUARD_TEST_DEEPSPEED_PYTHON names no interpreter with torch and deepspeed",
)
needs_gpu = pytest.mark.skipif(
    not PYTHON or shutil.which("nvidia-smi") is None,
    reason="needs nvidia-smi and ENVGUARD_TEST_TORCH_PYTHON with a CUDA build",
)

CRASH_OF_RANK_1 = """
import ctypes, importlib, os
real = importlib.import_module
def import_module(name, package=None):
    module = real(name, package)
    if name == "torch.distributed" and os.environ.get("RANK") == "1":
        module.all_reduce = lambda tensor: ctypes.string_at(0)
    return module
importlib.import_module = import_module
"""


@pytest.mark.torch
@needs_torch
def test_every_stage_passes_on_the_cpu() -> None:
    result = run_smoke(SmokeRequest(PYTHON, Device("cpu")))
    assert {s.id: s.error for s in result.stages if s.status is StageStatus.FAIL} == {}
    passed = {s.id for s in result.stages if s.status is StageStatus.OK}
    assert {"forward", "backward", "optimizer-step", "reference", "attention"} <= passed
    assert {"bfloat16", "float16", "checkpoint", "shutdown"} <= passed


@pytest.mark.torch
@needs_torch
def test_a_process_group_of_one_reduces_on_the_cpu() -> None:
    result = run_smoke(SmokeRequest(PYTHON, Device("cpu"), stages=("distributed",)))
    stage = result.stage("distributed")
    assert stage is not None
    assert (stage.status, stage.error) == (StageStatus.OK, None)
    assert stage.details["backend"] == "gloo"


@pytest.mark.torch
@needs_torch
def test_a_real_checkpoint_costs_host_memory() -> None:
    result = run_smoke(SmokeRequest(PYTHON, Device("cpu"), stages=("checkpoint",)))
    stage = result.stage("checkpoint")
    assert stage is not None
    assert stage.details["file_bytes"] > 16 * 2**20
    assert stage.rss_peak_bytes is not None
    assert stage.rss_before_bytes is not None
    assert stage.rss_peak_bytes - stage.rss_before_bytes > 16 * 2**20


@pytest.mark.torch
@needs_torch
def test_a_real_cpu_build_has_no_gpu() -> None:
    result = run_smoke(SmokeRequest(PYTHON, Device("cuda:0")))
    stage = result.stage("cuda-init")
    assert stage is not None
    if result.detail("import", "cuda") is not None:
        pytest.skip("the interpreter has a CUDA build")
    assert stage.error is not None
    assert "is a build without CUDA" in stage.error.message


@pytest.mark.torch
@needs_torch
def test_two_real_ranks_reduce_on_the_cpu() -> None:
    result = run_smoke(SmokeRequest(PYTHON, Device("cpu"), stages=("all-reduce",)))
    stage = result.stage("all-reduce")
    assert stage is not None
    assert (stage.status, stage.error) == (StageStatus.OK, None)
    assert stage.details["ranks"] == 2


@pytest.mark.torch
@needs_torch
def test_a_crash_of_a_real_rank_is_told_from_what_it_does_to_the_other(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(CRASH_OF_RANK_1)
    request = SmokeRequest(
        PYTHON,
        Device("cpu"),
        stages=("all-reduce",),
        variables=(("PYTHONPATH", str(tmp_path)),),
    )
    stage = run_smoke(request).stage("all-reduce")
    assert stage is not None
    assert stage.error is not None
    assert stage.error.message == "rank 1 of 2 died of SIGSEGV (status -11)"
    assert stage.error.frames[0].endswith("in string_at")


@pytest.mark.torch
@needs_deepspeed
def test_a_real_deepspeed_steps_saves_and_loads_with_every_zero_stage() -> None:
    stages = ("zero-1", "zero-2", "zero-3")
    result = run_smoke(SmokeRequest(DEEPSPEED_PYTHON, Device("cpu"), stages=stages))
    assert {s.id: s.error for s in result.stages if s.status is StageStatus.FAIL} == {}
    found = {s.id: s for s in result.stages}
    assert [found[name].status for name in stages] == [StageStatus.OK] * 3
    assert [found[name].details["zero"] for name in stages] == [1, 2, 3]
    assert all(found[name].details["file_bytes"] > 4000 for name in stages)
    assert found["shutdown"].status is StageStatus.OK


@pytest.mark.gpu
@needs_gpu
def test_a_process_group_of_one_reduces_with_nccl() -> None:
    result = run_smoke(SmokeRequest(PYTHON, Device("cuda:0"), stages=("distributed",)))
    stage = result.stage("distributed")
    assert stage is not None
    assert (stage.status, stage.error) == (StageStatus.OK, None)
    assert stage.details["backend"] == "nccl"


@pytest.mark.gpu
@needs_gpu
def test_every_stage_passes_on_the_first_gpu() -> None:
    result = run_smoke(SmokeRequest(PYTHON, Device("cuda:0")))
    assert {s.id: s.error for s in result.stages if s.status is StageStatus.FAIL} == {}
    passed = {s.id for s in result.stages if s.status is StageStatus.OK}
    assert {"cuda-init", "context", "forward", "backward", "reference", "convolution"} <= passed
    assert result.device == "cuda:0"
    assert result.detail("cuda-init", "capability")


@pytest.mark.gpu
@needs_gpu
def test_a_gpu_beyond_the_last_is_not_available() -> None:
    result = run_smoke(SmokeRequest(PYTHON, Device("cuda:999"), stages=("context",)))
    stage = result.stage("cuda-init")
    assert stage is not None
    assert stage.error is not None
    assert "there is no cuda:999" in stage.error.message
