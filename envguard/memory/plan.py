"""The plan of a job: GPU and host memory in every phase, against the machine's limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from statistics import median
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.errors import DocumentError, InputError
from envguard.facts.sentences import say
from envguard.matrix.memory import MemoryTable
from envguard.memory.formulas import Book, Line, Stack, job_symbols
from envguard.memory.gpu import plan_gpu
from envguard.memory.host import plan_host
from envguard.memory.job import Job, Placement, Strategy
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.facts.machine import Machine


GIB = 1024**3
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*(?:([KMGT])(?:i?B)?)?", re.IGNORECASE)
_UNITS = {"K": 1 / 1024**2, "M": 1 / 1024, "G": 1.0, "T": 1024.0}
_LEAST, _MOST = 0.25, 1_048_576.0  # GiB


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Limits of one side each; None is not known and not judged.

    Args:
        gpu_total: Bytes of one GPU as stated or read.
        gpu_usable: What torch can have of it.
        host_total: Bytes of one node: the tightest of what limits it.
        host_usable: What the job can have of it.
        host_kind: What the host limit is: ``stated``, ``physical memory``, ``cgroup``, ``ulimit``.
    """

    gpu_total: float | None = None
    gpu_usable: float | None = None
    host_total: float | None = None
    host_usable: float | None = None
    host_kind: str = ""


def parse_memory(option: str, text: str) -> float:
    """Read a size in bytes; a plain number is GiB.

    Args:
        option: Name of the option, for messages.
        text: ``80``, ``80G``, ``64GiB``, ``65536M``, ``1.5T``; units are powers of 1024.

    Raises:
        InputError: No size, or not between 0.25 GiB and 1 PiB.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{option}: {text!r} is not a memory size such as 80 (GiB) or 80G")
    size = float(match[1]) * _UNITS[(match[2] or "G").upper()]
    if not _LEAST <= size <= _MOST:
        raise InputError(f"{option}: {text!r} is not between 0.25 GiB and 1 PiB")
    return size * GIB


def limits_of(
    table: MemoryTable,
    *,
    gpu_stated: float | None,
    host_stated: float | None,
    machine: Machine | None,
) -> MemoryLimits:
    """Put the limits together.

    Args:
        table: How much of a nominal size a job can have.
        gpu_stated: Bytes of one GPU as stated.
        host_stated: Bytes of one node as stated.
        machine: The machine that fills in what is not stated; None fills in nothing.
    """
    gpu_total, gpu_usable = gpu_stated, None
    if gpu_stated is not None:
        reserved = table.formula("limit.gpu_reserved").evaluate({"nominal": gpu_stated})
        gpu_usable = gpu_stated - reserved.likely
    elif machine is not None:
        gpu_total = gpu_usable = _smallest_gpu(machine)
    host_total, kind = host_stated, "stated"
    if host_stated is None:
        host_total, kind = _tightest(machine)
    usable = _host_usable(host_total, kind, table)
    return MemoryLimits(gpu_total, gpu_usable, host_total, usable, kind if host_total else "")


def _smallest_gpu(machine: Machine) -> float | None:
    sizes = [gpu.memory_bytes for gpu in machine.selected_gpus if gpu.memory_bytes]
    return float(min(sizes)) if sizes else None


def _tightest(machine: Machine | None) -> tuple[float | None, str]:
    if machine is None:
        return None, ""
    limits = machine.limits
    known = [
        (float(size), kind)
        for size, kind in (
            (limits.cgroup_bytes, "cgroup"),
            (limits.ram_bytes, "physical memory"),
            (limits.address_space_bytes, "ulimit"),
        )
        if size is not None
    ]
    return min(known, default=(None, ""), key=lambda pair: pair[0] or 0.0)


def _host_usable(total: float | None, kind: str, table: MemoryTable) -> float | None:
    if total is None:
        return None
    usable = total
    if kind in {"stated", "physical memory"}:  # a cgroup counts the job's own processes only
        usable -= table.formula("limit.system_reserve").evaluate({"ram": total}).likely
    return usable - table.formula("limit.host_headroom").evaluate({"usable": usable}).likely


_FLATTENS_ON_GPU = Version("0.18.7")  # deepspeed PR 7828


class MemoryPhase(Enum):
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

    phase: MemoryPhase
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
        return tuple(
            p for p in self.phases if p.phase is not MemoryPhase.RESUME or self.job.resumes
        )

    def phase(self, phase: MemoryPhase) -> PhasePlan:
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
    total = limits.gpu_total if limits is not None else None
    book = Book(
        table,
        job_symbols(job, table, total or 0.0),
        pins_memory=job.zero.pins_memory,
        spread=job.shape.spread,
    )
    room = limits.gpu_usable if limits is not None else None
    on_host = _flattens_on_host(job, book, room)
    gpu = plan_gpu(job, book, flattens_on_host=on_host, room=room)
    host = plan_host(job, book, flattens_on_host=on_host)
    phases = (
        PhasePlan(MemoryPhase.LOAD, gpu.load, host.load),
        PhasePlan(MemoryPhase.INIT, gpu.init, host.init),
        PhasePlan(MemoryPhase.STEP, gpu.step, host.step),
        PhasePlan(MemoryPhase.SAVE, gpu.save, host.save),
        PhasePlan(MemoryPhase.RESUME, gpu.resume, host.resume),
    )
    return MemoryPlan(job, phases)


def _flattens_on_host(job: Job, book: Book, room: float | None) -> bool:
    """Where ZeRO-1 and -2 make their flat copy: on the GPU since 0.18.7, if it has room."""
    if job.strategy not in {Strategy.ZERO1, Strategy.ZERO2}:
        return False
    if job.versions.deepspeed < _FLATTENS_ON_GPU:
        return True
    flat = book.symbols["e"] * book.symbols["Pt"]
    states = 4 * book.symbols["Pt"] / book.symbols["N"] if job.optimizer_on is Placement.GPU else 0
    frozen = book.symbols["frozen_bytes"]
    return room is not None and 2 * flat + frozen + states > room


# A run's phases as `envguard run` names them; import and shutdown have no line in a plan.
_PHASES = {"train": MemoryPhase.STEP, **{phase.value: phase for phase in MemoryPhase}}
# Outside these factors the record is of another job, not of this one with a margin.
_LEAST_FACTOR, _MOST_FACTOR = 0.2, 5.0

Measured = dict[tuple[Side, MemoryPhase | None], float]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Factors by side and phase.

    Args:
        factors: Measured over planned, where measured.
        others: The factor of a side's phases that were not measured.
        words: What was scaled and by how much.
    """

    factors: Mapping[tuple[Side, MemoryPhase], float] = field(default_factory=dict)
    others: Mapping[Side, float] = field(default_factory=dict)
    words: tuple[str, ...] = ()

    def apply(self, plan: MemoryPlan) -> MemoryPlan:
        """The plan with every line scaled; the total of a measured phase is what was measured."""
        if not self.factors:
            return plan
        phases = tuple(
            PhasePlan(
                phase.phase,
                self._scaled(phase.gpu, Side.GPU, phase.phase),
                self._scaled(phase.host, Side.HOST, phase.phase),
            )
            for phase in plan.phases
        )
        return replace(plan, phases=phases)

    def _scaled(self, stack: Stack, side: Side, phase: MemoryPhase) -> Stack:
        factor = self.factors.get((side, phase), self.others.get(side, 1.0))
        return Stack(tuple(_scaled_line(line, factor) for line in stack.lines))


def _scaled_line(line: Line, factor: float) -> Line:
    return line if line.is_reclaimable else line.times(factor)


def measured_peaks(host_peaks: Mapping[str, int], gpu_peaks: Mapping[int, int]) -> Measured:
    """The peaks that a plan can be held against.

    Args:
        host_peaks: Bytes of all processes of one node by phase, as run records name phases.
        gpu_peaks: Bytes by GPU over the whole run.

    Returns:
        Bytes by side and phase; None for a peak of which the phase is not known.

    Raises:
        DocumentError: Nothing in it can be compared with a plan.
    """
    found: Measured = {}
    for name, size in host_peaks.items():
        phase = _PHASES.get(name)
        if phase is not None and size > 0:
            found[Side.HOST, phase] = float(size)
    if not found and max(host_peaks.values(), default=0) > 0:
        found[Side.HOST, None] = float(max(host_peaks.values()))
    if max(gpu_peaks.values(), default=0) > 0:
        found[Side.GPU, None] = float(max(gpu_peaks.values()))
    if not found:
        raise DocumentError("--from-run: the record holds no memory of any phase")
    return found


def calibrate(plan: MemoryPlan, measured: Measured) -> Calibration:
    """Derive factors from a plan and what the same job was measured to need.

    Raises:
        DocumentError: A measured peak is so far from the plan that it must be another job's.
    """
    factors: dict[tuple[Side, MemoryPhase], float] = {}
    words: list[str] = []
    for (side, known), size in measured.items():
        phase = known or plan.peak(side).phase
        planned = plan.phase(phase).stack(side).total.likely
        factor = size / planned if planned else 1.0
        if not _LEAST_FACTOR <= factor <= _MOST_FACTOR:
            raise DocumentError(
                f"--from-run: {side.value} in {phase.value} was measured at {size / GIB:.1f} GiB "
                f"and is planned at {planned / GIB:.1f} GiB: not the same job"
            )
        factors[side, phase] = factor
        words.append(
            say(
                "{memory} in {phase} is scaled by {factor:.2f} to the measured {size:.1f} GiB",
                memory=side.value,
                phase=phase.value,
                factor=factor,
                size=size / GIB,
            )
        )
    others = {side: _middle(factors, side) for side in Side}
    words += [
        say(
            "{memory} in the phases that were not measured is scaled by {factor:.2f}",
            memory=side.value,
            factor=factor,
        )
        for side, factor in others.items()
        if factor != 1.0 and sum(1 for key in factors if key[0] is side) < len(plan.run)
    ]
    return Calibration(factors, others, tuple(words))


def _middle(factors: Mapping[tuple[Side, MemoryPhase], float], side: Side) -> float:
    return median([factor for key, factor in factors.items() if key[0] is side] or [1.0])


@dataclass(frozen=True, slots=True)
class Planner:
    """What every plan of one command shares.

    Args:
        table: The formulas.
        calibration: Factors from a measured run; none where there was none.
    """

    table: MemoryTable
    calibration: Calibration = field(default_factory=Calibration)

    def plan(self, job: Job, limits: MemoryLimits) -> MemoryPlan:
        """Predict the memory of a job.

        Args:
            job: The job.
            limits: The machine's.
        """
        return self.calibration.apply(plan_memory(job, self.table, limits))
