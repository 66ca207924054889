"""Jobs and plans for the tests of the planner."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from envguard.matrix.loader import Matrix
from envguard.memory.job import Job, Strategy, Versions
from envguard.memory.plan import (
    GIB,
    MemoryLimits,
    MemoryPhase,
    MemoryPlan,
    Side,
    limits_of,
    plan_memory,
)
from envguard.memory.public_models import guess_shape

if TYPE_CHECKING:
    from envguard.matrix.memory import MemoryTable
    from envguard.memory.formulas import Line

VERSIONS = Versions(
    deepspeed=Version("0.19.8"),
    transformers=Version("5.24.0"),
    torch=Version("2.13.0"),
    safetensors=Version("0.8.0"),
    accelerate=Version("1.15.0"),
)


@cache
def table() -> MemoryTable:
    return Matrix.load().memory


def job(strategy: str, gpus: int = 4, params: float = 7.6e9, **changes: Any) -> Job:
    """A job on one node unless said otherwise."""
    shape = guess_shape(int(params), table())
    plain = Job(shape=shape, strategy=Strategy(strategy), versions=VERSIONS, gpus=gpus)
    return replace(plain, **changes)


def limits(gpu: float | None = None, host: float | None = None) -> MemoryLimits:
    """Limits in GiB."""
    return limits_of(
        table(),
        gpu_stated=None if gpu is None else gpu * GIB,
        host_stated=None if host is None else host * GIB,
        machine=None,
    )


def plan(wanted: Job, gpu: float | None = None, host: float | None = None) -> MemoryPlan:
    return plan_memory(wanted, table(), limits(gpu, host))


def lines(found: MemoryPlan, phase: MemoryPhase, side: Side) -> dict[str, Line]:
    """Lines by formula."""
    return {line.formula: line for line in found.phase(phase).stack(side).lines}


def likely(found: MemoryPlan, phase: MemoryPhase, side: Side, formula: str) -> float:
    """Likely bytes of one line."""
    return lines(found, phase, side)[formula].amount.likely
