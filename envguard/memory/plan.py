"""The plan of a job: GPU and host memory in every phase, and the limits it is held against."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.memory.gpu import plan_gpu
from envguard.memory.host import plan_host
from envguard.memory.job import Job, Place, Strategy
from envguard.memory.lines import Book, Stack
from envguard.memory.symbols import job_symbols

if TYPE_CHECKING:
    from envguard.matrix.memory_table import MemoryTable
    from envguard.memory.limits import MemoryLimits

_FLATTENS_ON_GPU = Version("0.18.7")  # deepspeed PR 7828


class Phase(Enum):
    """Phases of a job, in the order in which it passes them."""

    LOAD = "load"
    INIT = "init"
    STEP = "step"
    SAVE = "save"
    RESUME = "resume"


class Side(Enum):
    """Which memory."""

    GPU = "gpu"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """One phase.

    Args:
        phase: Which.
        gpu: Lines of one GPU.
        host: Lines of one node.
    """

    phase: Phase
    gpu: Stack
    host: Stack

    def stack(self, side: Side) -> Stack:
        """The lines of one side."""
        return self.gpu if side is Side.GPU else self.host


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What a job needs.

    Args:
        job: The job.
        phases: In order.
    """

    job: Job
    phases: tuple[PhasePlan, ...]

    @property
    def run(self) -> tuple[PhasePlan, ...]:
        """The phases that this run passes: a resume only where it starts from a checkpoint."""
        return tuple(p for p in self.phases if p.phase is not Phase.RESUME or self.job.resumes)

    def phase(self, phase: Phase) -> PhasePlan:
        """One phase."""
        return next(p for p in self.phases if p.phase is phase)

    def peak(self, side: Side) -> PhasePlan:
        """The phase of the run with the largest likely need; the earlier one of two equal."""
        return max(self.run, key=lambda p: p.stack(side).total.likely)


def plan_memory(job: Job, table: MemoryTable, limits: MemoryLimits | None = None) -> MemoryPlan:
    """Predict the memory of a job.

    Args:
        job: The job.
        table: The formulas.
        limits: The machine's; they decide where DeepSpeed flattens weights. None is not known.
    """
    book = Book(
        table,
        job_symbols(job, table),
        pins_memory=job.zero.pins_memory,
        spread=job.shape.spread,
    )
    room = limits.gpu_usable if limits is not None else None
    on_host = _flattens_on_host(job, book, room)
    gpu = plan_gpu(job, book, flattens_on_host=on_host)
    host = plan_host(job, book, flattens_on_host=on_host)
    phases = (
        PhasePlan(Phase.LOAD, gpu.load, host.load),
        PhasePlan(Phase.INIT, gpu.init, host.init),
        PhasePlan(Phase.STEP, gpu.step, host.step),
        PhasePlan(Phase.SAVE, gpu.save, host.save),
        PhasePlan(Phase.RESUME, gpu.resume, host.resume),
    )
    return MemoryPlan(job, phases)


def _flattens_on_host(job: Job, book: Book, room: float | None) -> bool:
    """Where ZeRO-1 and -2 make their flat copy: on the GPU since 0.18.7, if it has room."""
    if job.strategy not in {Strategy.ZERO1, Strategy.ZERO2}:
        return False
    if job.versions.deepspeed < _FLATTENS_ON_GPU:
        return True
    flat = book.symbols["e"] * book.symbols["Pt"]
    states = 4 * book.symbols["Pt"] / book.symbols["N"] if job.optimizer_on is Place.GPU else 0
    frozen = book.symbols["frozen_bytes"]
    return room is not None and 2 * flat + frozen + states > room
