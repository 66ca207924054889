"""One resolution against the index that uv is configured to use; torch from loopback."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from envguard.lock.lock_plan import plan_lock
from envguard.lock.uv import find_uv
from tests.lock.conftest import ask, v100

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
