"""Scales a plan to what a run of the same job was measured to need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from envguard.errors import DocumentError
from envguard.memory.limits import GIB
from envguard.memory.lines import Line, Stack
from envguard.memory.plan import MemoryPlan, Phase, PhasePlan, Side

# A run's phases as `envguard run` names them; import and shutdown have no line in a plan.
_PHASES = {"train": Phase.STEP, **{phase.value: phase for phase in Phase}}
# Outside these factors the record is of another job, not of this one with a margin.
_LEAST, _MOST = 0.2, 5.0

Measured = dict[tuple[Side, Phase | None], float]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Factors by side and phase.

    Args:
        factors: Measured over planned, where measured.
        others: The factor of a side's phases that were not measured.
        words: What was scaled and by how much.
    """

    factors: Mapping[tuple[Side, Phase], float] = field(default_factory=dict)
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

    def _scaled(self, stack: Stack, side: Side, phase: Phase) -> Stack:
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
    factors: dict[tuple[Side, Phase], float] = {}
    words: list[str] = []
    for (side, known), size in measured.items():
        phase = known or plan.peak(side).phase
        planned = plan.phase(phase).stack(side).total.likely
        factor = size / planned if planned else 1.0
        if not _LEAST <= factor <= _MOST:
            raise DocumentError(
                f"--from-run: {side.value} in {phase.value} was measured at {size / GIB:.1f} GiB "
                f"and is planned at {planned / GIB:.1f} GiB: not the same job"
            )
        factors[side, phase] = factor
        words.append(
            f"{side.value} in {phase.value} is scaled by {factor:.2f} to the measured "
            f"{size / GIB:.1f} GiB"
        )
    others = {side: _middle(factors, side) for side in Side}
    words += [
        f"{side.value} in the phases that were not measured is scaled by {factor:.2f}"
        for side, factor in others.items()
        if factor != 1.0 and sum(1 for key in factors if key[0] is side) < len(plan.run)
    ]
    return Calibration(factors, others, tuple(words))


def _middle(factors: Mapping[tuple[Side, Phase], float], side: Side) -> float:
    return median([factor for key, factor in factors.items() if key[0] is side] or [1.0])
