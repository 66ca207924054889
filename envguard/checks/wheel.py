"""The wheel family: is torch there, and is it a build for NVIDIA GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import CheckOptions, torch_evidence, torch_words
from envguard.checks.cpu_build import cpu_build_finding
from envguard.facts.environment import Accelerator
from envguard.facts.findings import Finding, Remedy, Status
from envguard.facts.gaps import GapReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.facts import Facts
    from envguard.matrix.loader import Matrix


def check_torch_present(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """An environment without torch has nothing to judge, and that is said."""
    environment = facts.environment
    if environment is None or environment.torch is not None or environment.distributions is None:
        return
    gap = facts.gap("environment.torch")
    if gap is not None and gap.reason is not GapReason.ABSENT:
        return  # a torch that is there and broken is something to judge
    where = environment.document or (
        environment.interpreter.executable if environment.interpreter else None
    )
    yield Finding(
        code="WHL001",
        cause="nothing-to-judge",
        status=Status.OK,
        title="torch is not installed: there is nothing to judge",
        detail=f"looked at {where}" if where else "",
        package="torch",
    )


def check_accelerator(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """A CPU build beside a GPU, and builds for other vendors."""
    torch = facts.environment.torch if facts.environment else None
    if torch is None:
        return
    match torch.accelerator:
        case Accelerator.CPU:
            yield cpu_build_finding(facts, matrix, torch, options)
        case Accelerator.ROCM | Accelerator.XPU | Accelerator.MPS:
            yield Finding(
                code="WHL003",
                cause="other-accelerator",
                status=Status.SKIP,
                title=f"{torch_words(torch)} is a build for {torch.accelerator.value}",
                detail="envguard judges NVIDIA and CPU builds only.",
                package="torch",
                evidence=torch_evidence(torch),
            )
        case Accelerator.CUDA:
            return
        case None:
            yield Finding(
                code="WHL004",
                cause="torch-build-not-known",
                status=Status.UNKNOWN,
                title=f"cannot tell which build {torch_words(torch)} is",
                detail="Neither its version nor its origin names a CUDA release.",
                package="torch",
                evidence=torch_evidence(torch),
                remedy=Remedy("pin it with its local label, e.g. torch==2.7.1+cu128"),
            )
