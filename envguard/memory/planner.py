"""Plans jobs with one table of formulas and one calibration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from envguard.matrix.memory_table import MemoryTable
from envguard.memory.calibrate import Calibration
from envguard.memory.plan import MemoryPlan, plan_memory

if TYPE_CHECKING:
    from envguard.memory.job import Job
    from envguard.memory.limits import MemoryLimits


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
