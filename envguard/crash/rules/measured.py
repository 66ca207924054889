"""What the samples of a supervised run prove about memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.facts.findings import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

_GIB = 2**30
_ORIGIN = "samples of the run"


def run_evidence(case: Case) -> tuple[Evidence, ...]:
    """Evidence of a kill for want of memory; empty when the samples hold none.

    The cgroup's counter rose, or the machine had next to nothing left. That memory was high is
    told with it, and proves nothing alone.
    """
    memory = case.memory
    if memory is None:
        return ()
    total = case.facts.machine.limits.ram_bytes
    least = memory.available_min_bytes
    is_drained = bool(total and least is not None and least < 0.01 * total)
    if not memory.kills and not is_drained:
        return ()
    return tuple(_figures(case))


def _figures(case: Case) -> Iterator[Evidence]:
    memory = case.memory
    if memory is None:
        return
    if memory.kills:
        said = f"rose by {memory.kills}"
        yield Evidence("oom_kill of the cgroup", said, _ORIGIN)
    if memory.cgroup_peak_bytes is not None and memory.cgroup_limit_bytes is not None:
        said = f"{_size(memory.cgroup_peak_bytes)} of {_size(memory.cgroup_limit_bytes)}"
        yield Evidence("cgroup use, without cache", said, _ORIGIN)
    elif memory.available_min_bytes is not None:
        yield Evidence("least available memory", _size(memory.available_min_bytes), _ORIGIN)
    for use in memory.workers()[:8]:
        name = f"rank {use.rank}" if use.rank else f"pid {use.pid}"
        said = f"{_size(use.last_bytes)} at last, peak {_size(use.peak_bytes)}"
        yield Evidence(f"memory of {name}", said, _ORIGIN)


def hit_limit(case: Case) -> bool:
    """Whether the samples show that the limit of the cgroup was what ended it."""
    memory = case.memory
    if memory is None or not memory.kills or memory.cgroup_limit_bytes is None:
        return False
    return (memory.cgroup_peak_bytes or 0) >= 0.5 * memory.cgroup_limit_bytes


def no_kill_was_counted(case: Case) -> bool:
    """Whether a supervised run is known to have lost no process to a memory killer.

    The kernel counts every process of a cgroup that any of its memory killers ends.
    """
    memory = case.memory
    return memory is not None and memory.kills_after is not None and not memory.kills


def measured_sizes(case: Case) -> list[int]:
    """Peaks of the ranks, the largest first."""
    memory = case.memory
    return [use.peak_bytes for use in memory.workers()] if memory is not None else []


def _size(value: int) -> str:
    return f"{value / _GIB:.2f} GiB"
