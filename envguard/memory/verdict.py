"""Holds a plan against limits: what breaks, what is tight, what hangs on unstated options."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from envguard.memory.formulas import MemoryPart
from envguard.memory.job import Job, JobOption, Placement, Strategy
from envguard.memory.job_request import differing, option_words, usual_jobs
from envguard.memory.plan import MemoryPhase, MemoryPlan, Side
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.memory.formulas import Stack
    from envguard.memory.plan import MemoryLimits, PhasePlan, Planner


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
class Overrun:
    """A phase that does not fit.

    Args:
        side: Which memory.
        phase: The phase.
        cause: Why, as a slug.
        need: Likely bytes.
        limit: Usable bytes.
    """

    side: Side
    phase: MemoryPhase
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


def find_overruns(plan: MemoryPlan, limits: MemoryLimits) -> tuple[Overrun, ...]:
    """What does not fit, in the order in which the run meets it; GPU before host in one phase."""
    return tuple(
        Overrun(side, phase.phase, cause_of(plan, phase, side, limit), need, limit)
        for phase in plan.run
        for side in Side
        if (limit := usable(limits, side)) is not None
        and grade(phase.stack(side), limit) is Grade.BREAKS
        and (need := phase.stack(side).total.likely)
    )


def fits(plan: MemoryPlan, limits: MemoryLimits) -> bool:
    """Whether no phase of the run breaks a known limit."""
    return not find_overruns(plan, limits)


def cause_of(plan: MemoryPlan, phase: PhasePlan, side: Side, limit: float) -> str:
    """The cause, as a slug, of a phase that does not fit."""
    if side is Side.GPU:
        return _gpu_cause(plan, phase, limit)
    match phase.phase:
        case MemoryPhase.LOAD:
            is_single = plan.job.ranks_per_node == 1
            return "host-oom-load" if is_single else "host-oom-per-rank-load"
        case MemoryPhase.INIT | MemoryPhase.STEP:
            offloads = any(line.part is MemoryPart.OFFLOADED for line in phase.host.lines)
            return "host-oom-optimizer-offload" if offloads else "host-oom-per-rank-load"
        case MemoryPhase.SAVE:
            return _save_cause(plan, limit)
        case MemoryPhase.RESUME:
            return "host-oom-resume"


def _gpu_cause(plan: MemoryPlan, phase: PhasePlan, limit: float) -> str:
    """Whole weights on every GPU, where spreading them would be enough; else states and more."""
    if plan.job.strategy in {Strategy.ZERO1, Strategy.ZERO2} and plan.job.gpus > 1:
        weights = sum(n.amount.likely for n in phase.gpu.lines if n.part is MemoryPart.WEIGHTS)
        excess = phase.gpu.total.likely - limit
        if excess < weights * (1 - 1 / plan.job.gpus):
            return "gpu-oom-zero2-full-params"
    return "gpu-oom-states-plus-activations"


def _save_cause(plan: MemoryPlan, limit: float) -> str:
    """The save itself, unless the states alone are too much already."""
    if grade(plan.phase(MemoryPhase.STEP).host, limit) is Grade.BREAKS:
        return "host-oom-optimizer-offload"
    copies = [n for n in plan.phase(MemoryPhase.SAVE).host.lines if n.part is MemoryPart.CHECKPOINT]
    is_gathered = all(line.formula in _GATHERS for line in copies)
    return "host-oom-rank0-gather" if copies and is_gathered else "host-oom-save"


def offloads_to_host(plan: MemoryPlan) -> bool:
    """States live in host memory, which grows over a run beyond what is planned."""
    return plan.job.optimizer_on is Placement.CPU


@dataclass(frozen=True, slots=True)
class OptionChoice:
    """One usual way to run a job.

    Args:
        words: The deciding options with their values.
        need: Likely bytes.
    """

    words: tuple[str, ...]
    need: float


@dataclass(frozen=True, slots=True)
class Dependence:
    """A phase that fits or breaks by options that nobody stated.

    Args:
        side: Which memory.
        phase: The phase.
        options: Those that decide.
        fitting: The way that fits: the assumed one, or the one nearest to it.
        breaking: Likewise the way that breaks.
        limit: Usable bytes.
        breaks_as_assumed: The assumed way is the one that breaks.
    """

    side: Side
    phase: MemoryPhase
    options: tuple[JobOption, ...]
    fitting: OptionChoice
    breaking: OptionChoice
    limit: float
    breaks_as_assumed: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """A plan held against limits, whatever is not stated.

    Args:
        breaks: What breaks under all usual values.
        depends: What breaks under some of them; of a side that breaks anyway, nothing.
    """

    breaks: tuple[Overrun, ...]
    depends: tuple[Dependence, ...]

    @property
    def sides(self) -> frozenset[Side]:
        """The sides that it says anything about."""
        return frozenset({b.side for b in self.breaks} | {d.side for d in self.depends})

    def depends_on(self, side: Side, phase: MemoryPhase) -> bool:
        """Whether a phase fits or breaks by what is not stated."""
        return any(d.side is side and d.phase is phase for d in self.depends)


def judge(planner: Planner, plan: MemoryPlan, limits: MemoryLimits) -> Judgement:
    """Hold a plan and those of the other usual ways against limits.

    A plan that is scaled to a measured run stands alone: the run has decided what is not stated.

    Args:
        planner: Plans the other ways.
        plan: The plan of the job as assumed.
        limits: The machine's.
    """
    others: list[MemoryPlan] = []
    if not planner.calibration.factors:
        usual = usual_jobs(plan.job, planner.table)[1:]
        others = [planner.plan(other, limits) for other in usual]
    broken = {(b.side, b.phase): b for b in find_overruns(plan, limits)}
    ways_out = _with_headroom(limits, planner)
    always: list[Overrun] = []
    depends: list[Dependence] = []
    for phase in (p.phase for p in plan.run):
        for side in Side:
            found = broken.get((side, phase))
            held = ways_out if found else limits
            other = _first_other(others, side, phase, held, breaks=found is None)
            if other is not None:
                depends.append(_dependence(plan, other, side, phase, limits, breaks=bool(found)))
            elif found is not None:
                always.append(found)
    failed = {found.side for found in always}
    return Judgement(tuple(always), tuple(d for d in depends if d.side not in failed))


def _with_headroom(limits: MemoryLimits, planner: Planner) -> MemoryLimits:
    """Limits for a way out of a plan that breaks; those of the host have their headroom already."""
    if limits.gpu_usable is None:
        return limits
    formula = planner.table.formula("limit.headroom_of_other_ways")
    headroom = formula.evaluate({"usable": limits.gpu_usable}).likely
    return replace(limits, gpu_usable=limits.gpu_usable - headroom)


def _first_other(
    others: list[MemoryPlan], side: Side, phase: MemoryPhase, limits: MemoryLimits, *, breaks: bool
) -> MemoryPlan | None:
    """The nearest other plan that breaks in this phase, or that does not."""
    limit = usable(limits, side)
    for other in others:
        found = grade(other.phase(phase).stack(side), limit) is Grade.BREAKS
        if found is breaks:
            return other
    return None


def _dependence(
    plan: MemoryPlan,
    other: MemoryPlan,
    side: Side,
    phase: MemoryPhase,
    limits: MemoryLimits,
    *,
    breaks: bool,
) -> Dependence:
    """The assumed plan beside one that ends otherwise."""
    options = differing(plan.job, other.job)
    ways = [_option_choice(item, side, phase, options) for item in (plan, other)]
    fitting, breaking = reversed(ways) if breaks else ways
    limit = usable(limits, side) or 0.0
    return Dependence(side, phase, options, fitting, breaking, limit, breaks)


def _option_choice(
    plan: MemoryPlan, side: Side, phase: MemoryPhase, options: tuple[JobOption, ...]
) -> OptionChoice:
    need = plan.phase(phase).stack(side).total.likely
    return OptionChoice(tuple(_words(plan.job, options)), need)


def _words(job: Job, options: tuple[JobOption, ...]) -> Iterator[str]:
    return (option_words(job, option) for option in options)
