"""One resolution against the index that uv is configured to use; torch from loopback."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.facts.machine import Driver, Gpu, Host, Machine
from envguard.facts.versions import ComputeCapability, DriverVersion
from envguard.lock.lock_plan import plan_lock
from envguard.lock.request import Target
from envguard.lock.uv import find_uv
from tests.lock.conftest import LINUX, ask, h100, v100

if TYPE_CHECKING:
    from envguard.matrix.loader import Matrix
    from tests.loopback.index import LoopbackIndex


@pytest.mark.network
def test_deepspeed_and_transformers_are_locked_around_torch(
    index: LoopbackIndex, matrix: Matrix
) -> None:
    request = ask(index, "deepspeed", "transformers", "torch", machines=(v100(),))
    request = replace(request, indexes=replace(request.indexes, default=None))
    plan = plan_lock(request, matrix, find_uv(os.environ))
    pins = {pin.name: pin for pin in plan.pins}
    assert plan.build.label == "2.14.1+cu126"
    from_torch_index = {name for name, pin in pins.items() if plan.comes_from_torch_index(pin)}
    assert from_torch_index == {"torch", "triton"}
    assert {"deepspeed", "transformers", "tokenizers", "nvidia-cudnn-cu12"} <= set(pins)
    assert not [name for name, pin in pins.items() if not pin.artifacts[0].sha256]


_A100 = Machine(
    host=Host(platform=LINUX, glibc=Version("2.35")),
    driver=Driver(version=DriverVersion.parse("550.54.15")),
    gpus=(Gpu(0, "NVIDIA A100-SXM4-80GB", ComputeCapability(8, 0)),),
)


@pytest.mark.network
@pytest.mark.parametrize("machine", [_A100, h100("580.95.05")], ids=["A100", "H100"])
def test_pinned_vllm_is_locked_with_the_torch_that_it_pins(
    index: LoopbackIndex, matrix: Matrix, machine: Machine
) -> None:
    target = Target(LINUX, Version("3.11"), Version("2.35"))
    request = ask(index, "vllm==0.11.0", machines=(machine,), target=target)
    request = replace(request, indexes=replace(request.indexes, default=None))
    plan = plan_lock(request, matrix, find_uv(os.environ))
    assert plan.build.label in {"2.8.0+cu128", "2.8.0+cu129"}
    assert {str(pin.version) for pin in plan.pins if pin.name == "vllm"} == {"0.11.0"}
