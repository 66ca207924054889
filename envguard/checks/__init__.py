"""Checks: pure functions from facts and matrix to findings, one file per family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.driver import (
    check_driver_serves_cuda,
    check_driver_supports_gpus,
    check_gpu_visible,
)
from envguard.checks.gpu import check_code_for_gpus
from envguard.checks.wheel import check_accelerator, check_torch_present

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from envguard.checks.context import CheckOptions
    from envguard.facts.facts import Facts
    from envguard.facts.findings import Finding
    from envguard.matrix.loader import Matrix

    Check = Callable[[Facts, Matrix, CheckOptions], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    check_torch_present,
    check_accelerator,
    check_gpu_visible,
    check_driver_supports_gpus,
    check_driver_serves_cuda,
    check_code_for_gpus,
)

# The cause that explains the others stands first: a driver that does not list the GPU makes every
# later statement about that GPU moot, a CPU build makes driver and code irrelevant, a driver of
# the wrong major stops a program before its code is looked at.
CAUSE_ORDER: tuple[str, ...] = (
    "wrong-interpreter-inspected",
    "shadowed-install",
    "cpu-wheel-selected",
    "driver-branch-dropped-gpu",
    "driver-too-old-for-gpu",
    "no-gpu-visible",
    "driver-too-old-for-cuda-major",
    "driver-too-old-for-cuda",
    "jetson-needs-l4t-build",
    "mixed-gpus-arch",
    "arch-missing-new-gpu",
    "arch-missing-old-gpu",
    "minor-compat-feature-gap",
)


def run_checks(facts: Facts, matrix: Matrix, options: CheckOptions) -> tuple[Finding, ...]:
    """Run every check; all findings are kept.

    Args:
        facts: Completed facts (see :func:`envguard.matrix.complete.complete_facts`).
        matrix: The tables.
        options: What the user asked for.
    """
    return tuple(finding for check in CHECKS for finding in check(facts, matrix, options))
