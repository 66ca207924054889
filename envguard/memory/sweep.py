"""The same job under every strategy, side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envguard.memory.job import Job, Place, SaveMode, Strategy
from envguard.memory.plan import MemoryPlan
from envguard.memory.validate import is_valid
from envguard.memory.verdict import Break, find_breaks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.memory.limits import MemoryLimits
    from envguard.memory.planner import Planner


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One strategy.

    Args:
        name: Strategy and offload.
        plan: Its plan.
        breaks: What does not fit.
    """

    name: str
    plan: MemoryPlan
    breaks: tuple[Break, ...]


def sweep(planner: Planner, job: Job, limits: MemoryLimits) -> tuple[SweepRow, ...]:
    """Plan a job under every strategy and offload that it can have.

    Args:
        planner: Plans the variants.
        job: The job.
        limits: The machine's.
    """
    rows = []
    for name, changed in _variants(job):
        plan = planner.plan(changed, limits)
        rows.append(SweepRow(name, plan, find_breaks(plan, limits)))
    return tuple(rows)


def _variants(job: Job) -> Iterator[tuple[str, Job]]:
    for strategy in Strategy:
        for words, optimizer_on, params_on in _PLACES:
            changed = replace(
                job, strategy=strategy, optimizer_on=optimizer_on, params_on=params_on
            )
            if not is_valid(changed):  # a save mode of another framework
                changed = replace(changed, save=SaveMode.TRAINER)
            if is_valid(changed):
                yield f"{strategy.value}{words}", changed


_PLACES = (
    ("", Place.GPU, Place.GPU),
    (" + optimizer offload", Place.CPU, Place.GPU),
    (" + full offload", Place.CPU, Place.CPU),
)
