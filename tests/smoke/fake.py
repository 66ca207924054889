"""Runs the smoke test against the pretended torch of ``tests/fake_torch``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envguard.matrix.loader import Matrix
from envguard.smoke.result import Device, SmokeRequest
from envguard.smoke.smoke_run import run_smoke

if TYPE_CHECKING:
    from envguard.smoke.result import SmokeResult

MATRIX = Matrix.load()
FAKE_TORCH = Path(__file__).parents[1] / "fake_torch"
WITH_DEEPSPEED = os.pathsep.join([str(FAKE_TORCH / "with_deepspeed"), str(FAKE_TORCH)])
CORE = ("reference",)  # with its needs: everything from import to optimizer-step


def run_fake(
    faults: str = "",
    *,
    message: str = "",
    stages: tuple[str, ...] = CORE,
    device: str = "auto",
    gpu: str = "",
    stage_timeout_s: float | None = None,
    total_timeout_s: float = 120.0,
    **variables: str,
) -> SmokeResult:
    """Run stages with faults planted; see ``tests/fake_torch/torch.py`` for their names."""
    planted = {
        "PYTHONPATH": str(FAKE_TORCH),
        "FAKE_TORCH_FAULTS": faults,
        "FAKE_TORCH_MESSAGE": message,
        "FAKE_TORCH_GPU": gpu,
        **variables,
    }
    return run_smoke(
        SmokeRequest(
            python=sys.executable,
            device=Device.parse(device),
            stages=stages,
            stage_timeout_s=stage_timeout_s,
            total_timeout_s=total_timeout_s,
            variables=tuple(planted.items()),
        )
    )


def run_fake_deepspeed(faults: str = "", **words: Any) -> SmokeResult:
    """Likewise, with a pretended DeepSpeed and process groups."""
    words.setdefault("stages", ("zero-1", "zero-2", "zero-3"))
    return run_fake(faults, PYTHONPATH=WITH_DEEPSPEED, FAKE_TORCH_DISTRIBUTED="1", **words)
