"""What certainly breaks, and what breaks or fits by an option that nobody stated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envguard.memory.job import Job, Option
from envguard.memory.plan import MemoryPlan, Phase, Side
from envguard.memory.usual import differing, option_words, usual_jobs
from envguard.memory.verdict import Break, Grade, find_breaks, grade, usable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.memory.limits import MemoryLimits
    from envguard.memory.planner import Planner


@dataclass(frozen=True, slots=True)
class Way:
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
    phase: Phase
    options: tuple[Option, ...]
    fitting: Way
    breaking: Way
    limit: float
    breaks_as_assumed: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """A plan held against limits, whatever is not stated.

    Args:
        breaks: What breaks under all usual values.
        depends: What breaks under some of them; of a side that breaks anyway, nothing.
    """

    breaks: tuple[Break, ...]
    depends: tuple[Dependence, ...]

    @property
    def sides(self) -> frozenset[Side]:
        """The sides that it says anything about."""
        return frozenset({b.side for b in self.breaks} | {d.side for d in self.depends})

    def depends_on(self, side: Side, phase: Phase) -> bool:
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
    broken = {(b.side, b.phase): b for b in find_breaks(plan, limits)}
    ways_out = _with_headroom(limits, planner)
    always: list[Break] = []
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
    others: list[MemoryPlan], side: Side, phase: Phase, limits: MemoryLimits, *, breaks: bool
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
    phase: Phase,
    limits: MemoryLimits,
    *,
    breaks: bool,
) -> Dependence:
    """The assumed plan beside one that ends otherwise."""
    options = differing(plan.job, other.job)
    ways = [_way(item, side, phase, options) for item in (plan, other)]
    fitting, breaking = reversed(ways) if breaks else ways
    limit = usable(limits, side) or 0.0
    return Dependence(side, phase, options, fitting, breaking, limit, breaks)


def _way(plan: MemoryPlan, side: Side, phase: Phase, options: tuple[Option, ...]) -> Way:
    need = plan.phase(phase).stack(side).total.likely
    return Way(tuple(_words(plan.job, options)), need)


def _words(job: Job, options: tuple[Option, ...]) -> Iterator[str]:
    return (option_words(job, option) for option in options)
