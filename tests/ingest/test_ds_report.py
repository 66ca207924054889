from __future__ import annotations

from envguard.facts.environment import Accelerator
from envguard.facts.versions import CudaVersion
from tests.ingest.samples import load


def test_report_states_torch_deepspeed_toolkit_and_shm() -> None:
    facts = load("ds_report_0_17.txt")
    assert facts.environment is not None
    torch = facts.environment.torch
    assert torch is not None
    assert str(torch.version) == "2.7.0+cu128"
    assert torch.cuda == CudaVersion(12, 8)
    assert torch.location == "/home/user/venv/lib/python3.12/site-packages/torch"
    assert facts.machine.toolkit.nvcc == CudaVersion(12, 4)
    assert facts.machine.limits.shm_bytes == 64 * 1024 * 1024
    deepspeed = facts.environment.distribution("deepspeed")
    assert deepspeed is not None
    assert str(deepspeed.version) == "0.17.2"


def test_rocm_build_is_told() -> None:
    facts = load("ds_report_rocm.txt")
    assert facts.environment is not None
    assert facts.environment.torch is not None
    assert facts.environment.torch.accelerator is Accelerator.ROCM
    assert facts.machine.toolkit.nvcc is None
    assert facts.gap("machine.toolkit.nvcc") is not None


def test_first_form_has_no_hip_line() -> None:
    facts = load("ds_report_0_3.txt")
    assert facts.environment is not None
    assert facts.environment.torch is not None
    assert facts.environment.torch.cuda == CudaVersion(10, 1)
    assert [d.name for d in facts.environment.distributions or ()] == ["deepspeed", "torch"]
