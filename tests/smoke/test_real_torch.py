"""The stages against a real torch: on the CPU, and on a GPU where there is one."""

from __future__ import annotations

import os
import shutil

import pytest

from envguard.smoke.result import Device, SmokeRequest, StageStatus
from envguard.smoke.run import run_smoke

PYTHON = os.environ.get("ENVGUARD_TEST_TORCH_PYTHON", "")
needs_torch = pytest.mark.skipif(
    not PYTHON, reason="ENVGUARD_TEST_TORCH_PYTHON names no interpreter with torch"
)
needs_gpu = pytest.mark.skipif(
    not PYTHON or shutil.which("nvidia-smi") is None,
    reason="needs nvidia-smi and ENVGUARD_TEST_TORCH_PYTHON with a CUDA build",
)


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
