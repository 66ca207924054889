"""Holds a plan against limits: what fits, what is tight, what breaks first and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from envguard.memory.job import Place, Strategy
from envguard.memory.lines import Part
from envguard.memory.plan import MemoryPlan, Phase, Side

if TYPE_CHECKING:
    from envguard.memory.limits import MemoryLimits
    from envguard.memory.lines import Stack
    from envguard.memory.plan import PhasePlan

# Saves of sharded weights in which rank 0 alone takes the copies of all.
_GATHERS = frozenset(
    {"hf_trainer_deepspeed_zero3_gather.node", "deepspeed_save_16bit_model_zero3.node"}
)
# A plan may fail on weak evidence only where the firm part alone comes this near to the limit.
_FIRM_SHARE = 0.9


class Grade(Enum):
    """How a need stands to a limit."""

    FITS = "fits"
    TIGHT = "tight"
    BREAKS = "breaks"
    DEPENDS = "depends"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Break:
    """A phase that does not fit.

    Args:
        side: Which memory.
        phase: The phase.
        cause: Why, as a slug.
        need: Likely bytes.
        limit: Usable bytes.
    """

    side: Side
    phase: Phase
    cause: str
    need: float
    limit: float


def usable(limits: MemoryLimits, side: Side) -> float | None:
    """What a side offers the job; None is not known."""
    return limits.gpu_usable if side is Side.GPU else limits.host_usable


def grade(stack: Stack, limit: float | None) -> Grade:
    """Hold one stack against one limit.

    Args:
        stack: Lines that are alive together.
        limit: Usable bytes; None is not known.
    """
    if limit is None:
        return Grade.UNKNOWN
    total = stack.total
    if total.likely > limit and stack.firm > _FIRM_SHARE * limit:
        return Grade.BREAKS
    return Grade.TIGHT if total.high > limit else Grade.FITS


def find_breaks(plan: MemoryPlan, limits: MemoryLimits) -> tuple[Break, ...]:
    """What does not fit, in the order in which the run meets it; GPU before host in one phase."""
    return tuple(
        Break(side, phase.phase, cause_of(plan, phase, side, limit), need, limit)
        for phase in plan.run
        for side in Side
        if (limit := usable(limits, side)) is not None
        and grade(phase.stack(side), limit) is Grade.BREAKS
        and (need := phase.stack(side).total.likely)
    )


def fits(plan: MemoryPlan, limits: MemoryLimits) -> bool:
    """Whether no phase of the run breaks a known limit."""
    return not find_breaks(plan, limits)


def cause_of(plan: MemoryPlan, phase: PhasePlan, side: Side, limit: float) -> str:
    """The cause, as a slug, of a phase that does not fit."""
    if side is Side.GPU:
        return _gpu_cause(plan, phase, limit)
    match phase.phase:
        case Phase.LOAD:
            is_single = plan.job.ranks_per_node == 1
            return "host-oom-load" if is_single else "host-oom-per-rank-load"
        case Phase.INIT | Phase.STEP:
            offloads = any(line.part is Part.OFFLOADED for line in phase.host.lines)
            return "host-oom-optimizer-offload" if offloads else "host-oom-per-rank-load"
        case Phase.SAVE:
            return _save_cause(plan, limit)
        case Phase.RESUME:
            return "host-oom-resume"


def _gpu_cause(plan: MemoryPlan, phase: PhasePlan, limit: float) -> str:
    """Whole weights on every GPU, where spreading them would be enough; else states and more."""
    if plan.job.strategy in {Strategy.ZERO1, Strategy.ZERO2} and plan.job.gpus > 1:
        weights = sum(n.amount.likely for n in phase.gpu.lines if n.part is Part.WEIGHTS)
        excess = phase.gpu.total.likely - limit
        if excess < weights * (1 - 1 / plan.job.gpus):
            return "gpu-oom-zero2-full-params"
    return "gpu-oom-states-plus-activations"


def _save_cause(plan: MemoryPlan, limit: float) -> str:
    """The save itself, unless the states alone are too much already."""
    if grade(plan.phase(Phase.STEP).host, limit) is Grade.BREAKS:
        return "host-oom-optimizer-offload"
    copies = [n for n in plan.phase(Phase.SAVE).host.lines if n.part is Part.CHECKPOINT]
    is_gathered = all(line.formula in _GATHERS for line in copies)
    return "host-oom-rank0-gather" if copies and is_gathered else "host-oom-save"


def offloads_to_host(plan: MemoryPlan) -> bool:
    """States live in host memory, which grows over a run beyond what is planned."""
    return plan.job.optimizer_on is Place.CPU
