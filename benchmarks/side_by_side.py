"""Run commands in turn and compare their medians."""

from __future__ import annotations

import resource
import statistics
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one command, one entry per counted run.

    Args:
        name: Its name.
        seconds: By the clock, or of the processor, its own and its children's.
    """

    name: str
    seconds: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """The median."""
        return statistics.median(self.seconds)


def time_in_turn(
    commands: Mapping[str, Sequence[str]], *, runs: int, warmup: int = 1, of_cpu: bool = False
) -> dict[str, Timing]:
    """Run the commands A B C A B C ..., so that a drifting machine hits all of them alike.

    Args:
        commands: Name -> argument list. Output is thrown away; exit codes do not matter.
        runs: Counted runs of each.
        warmup: Runs of each that are not counted (they also compile the bytecode).
        of_cpu: Take the processor's time, which a busy machine changes less than the clock's.
    """
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(warmup + runs):
        for name, argv in commands.items():
            spent = _run(argv, of_cpu=of_cpu)
            if turn >= warmup:
                seconds[name].append(spent)
    return {name: Timing(name, tuple(values)) for name, values in seconds.items()}


def _run(argv: Sequence[str], *, of_cpu: bool) -> float:
    started, before = time.perf_counter(), _spent_by_children()
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return _spent_by_children() - before if of_cpu else time.perf_counter() - started


def _spent_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def print_timings(timings: Mapping[str, Timing]) -> None:
    """One line a command: minimum, median and maximum in milliseconds."""
    for timing in timings.values():
        low, high = min(timing.seconds), max(timing.seconds)
        print(
            f"{timing.name:<28} min {low * 1e3:8.1f}  median {timing.median_s * 1e3:8.1f}  "
            f"max {high * 1e3:8.1f} ms"
        )


def print_ratio(timings: Mapping[str, Timing], top: str, bottom: str, budget: float) -> bool:
    """Print the ratio of two medians beside its budget; returns whether it is kept."""
    ratio = timings[top].median_s / timings[bottom].median_s
    kept = ratio <= budget
    mark = "kept" if kept else "MISSED"
    print(f"{top} / {bottom} = {ratio:.3f} (budget {budget:.3f}: {mark})")
    return kept
