"""Scales a plan to what a run was measured to need.

The record is a JSON object, or a folder with ``record.json``, whose ``phases`` lists objects of
``phase`` (load, init, step or train, save, resume), ``gpu_peak_bytes`` of the fullest GPU and
``host_peak_bytes`` of the node, either of which may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING

from envguard.errors import DocumentError
from envguard.memory.limits import GIB
from envguard.memory.lines import Line, Stack
from envguard.memory.model_file import read_json_object
from envguard.memory.plan import MemoryPlan, Phase, PhasePlan, Side

if TYPE_CHECKING:
    from pathlib import Path

_PHASES = {"train": Phase.STEP, **{phase.value: phase for phase in Phase}}
_FIELDS = {Side.GPU: "gpu_peak_bytes", Side.HOST: "host_peak_bytes"}
# Outside these factors the record is of another job, not of this one with a margin.
_LEAST, _MOST = 0.2, 5.0

Measured = dict[tuple[Side, Phase], float]


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


def read_record(path: Path) -> Measured:
    """Read the measured peaks of a run.

    Raises:
        DocumentError: No record, or a field of the wrong form; the message names it.
    """
    target = path / "record.json" if path.is_dir() else path
    phases = read_json_object(target).get("phases")
    if not isinstance(phases, list):
        raise DocumentError(f"{target}: phases: expected a list of phases with their peaks")
    found: Measured = {}
    for index, entry in enumerate(phases):
        where = f"{target}: phases[{index}]"
        if not isinstance(entry, dict):
            raise DocumentError(f"{where}: expected an object")
        phase = _PHASES.get(str(entry.get("phase")))
        if phase is None:
            continue  # import and shutdown have no line in a plan
        for side, name in _FIELDS.items():
            if entry.get(name) is not None:
                found[side, phase] = _bytes(entry[name], f"{where}.{name}")
    if not found:
        raise DocumentError(f"{target}: phases: none holds {' or '.join(_FIELDS.values())}")
    return found


def _bytes(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**60:
        raise DocumentError(f"{where}: {value!r} is not a number of bytes")
    return float(value)


def calibrate(plan: MemoryPlan, measured: Measured) -> Calibration:
    """Derive factors from a plan and what the same job was measured to need.

    Raises:
        DocumentError: A measured peak is so far from the plan that it must be another job's.
    """
    factors: dict[tuple[Side, Phase], float] = {}
    words: list[str] = []
    for (side, phase), size in measured.items():
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
