"""What the samples of a run come to: peaks, the last word of each rank, kills of the cgroup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.crash.samples import ProcessUse, Sample


@dataclass(frozen=True, slots=True)
class RankUse:
    """Host memory of one process over the run.

    Args:
        pid: Process.
        rank: Its rank; empty when it has none.
        name: Command.
        peak_bytes: Largest resident memory.
        last_bytes: Resident memory in the last sample that saw it.
    """

    pid: int
    rank: str
    name: str
    peak_bytes: int
    last_bytes: int


@dataclass(frozen=True, slots=True)
class RunMemory:
    """The memory of a run, from its samples.

    Args:
        samples: How many.
        ranks: Each process that was seen, by process id.
        peak_bytes: Largest total of the tree.
        peak_phase: The phase it was in then.
        phase_peaks: Largest total by phase.
        cgroup_peak_bytes: Largest use of the cgroup, without inactive page cache.
        cgroup_limit_bytes: Its limit; None for none.
        kills_before: Kills that the cgroup had counted at the first sample.
        kills_after: At the last sample; with the difference nothing is guessed.
        available_min_bytes: Least available memory of the machine.
        swap_peak_bytes: Most swap in use.
        shm_peak_bytes: Most in use in /dev/shm.
        shm_bytes: Its size.
        gpu_peaks: Most memory used on each GPU by the tree.
    """

    samples: int = 0
    ranks: Mapping[int, RankUse] = field(default_factory=dict)
    peak_bytes: int = 0
    peak_phase: str = ""
    phase_peaks: Mapping[str, int] = field(default_factory=dict)
    cgroup_peak_bytes: int | None = None
    cgroup_limit_bytes: int | None = None
    kills_before: int | None = None
    kills_after: int | None = None
    available_min_bytes: int | None = None
    swap_peak_bytes: int | None = None
    shm_peak_bytes: int | None = None
    shm_bytes: int | None = None
    gpu_peaks: Mapping[int, int] = field(default_factory=dict)

    @property
    def kills(self) -> int:
        """Processes of the cgroup that a memory killer ended during the run."""
        if self.kills_before is None or self.kills_after is None:
            return 0
        return max(0, self.kills_after - self.kills_before)

    @property
    def largest(self) -> tuple[RankUse, ...]:
        """The processes, the largest peak first."""
        return tuple(sorted(self.ranks.values(), key=lambda use: -use.peak_bytes))

    def workers(self) -> tuple[RankUse, ...]:
        """The ranks; where none says that it is one, the Python processes."""
        ranked = [use for use in self.largest if use.rank]
        return tuple(ranked or (u for u in self.largest if u.name.startswith(("python", "pt_"))))


def add_sample(memory: RunMemory, sample: Sample, phase: str) -> RunMemory:
    """The memory with one more sample.

    Args:
        memory: So far.
        sample: The next one.
        phase: What the run was doing.
    """
    total, group = sample.total_bytes, sample.cgroup
    is_peak = total > memory.peak_bytes
    before = memory.kills_before if memory.samples else group.oom_kills
    return replace(
        memory,
        samples=memory.samples + 1,
        ranks={**memory.ranks, **_uses(memory, sample.processes)},
        peak_bytes=max(total, memory.peak_bytes),
        peak_phase=phase if is_peak else memory.peak_phase,
        phase_peaks={**memory.phase_peaks, phase: max(total, memory.phase_peaks.get(phase, 0))},
        cgroup_peak_bytes=_most(memory.cgroup_peak_bytes, group.used_bytes),
        cgroup_limit_bytes=group.limit_bytes or memory.cgroup_limit_bytes,
        kills_before=before,
        kills_after=group.oom_kills if group.oom_kills is not None else memory.kills_after,
        available_min_bytes=_least(memory.available_min_bytes, sample.available_bytes),
        swap_peak_bytes=_most(memory.swap_peak_bytes, sample.swap_used_bytes),
        shm_peak_bytes=_most(memory.shm_peak_bytes, sample.shm_used_bytes),
        shm_bytes=sample.shm_bytes or memory.shm_bytes,
    )


def add_gpu_reading(memory: RunMemory, reading: object) -> RunMemory:
    """The memory with one more reading of the GPUs; anything malformed is left out."""
    peaks = dict(memory.gpu_peaks)
    pids = {str(pid) for pid in memory.ranks}
    for entry in reading if isinstance(reading, list) else ():
        held = entry.get("held", {}) if isinstance(entry, dict) else {}
        ours = sum(n for pid, n in held.items() if pid in pids and isinstance(n, int))
        index = entry.get("gpu") if isinstance(entry, dict) else None
        if isinstance(index, int) and ours > peaks.get(index, 0):
            peaks[index] = ours
    return replace(memory, gpu_peaks=peaks)


def _uses(memory: RunMemory, processes: tuple[ProcessUse, ...]) -> dict[int, RankUse]:
    found = {}
    for use in processes:
        old = memory.ranks.get(use.pid)
        peak = max(use.rss_bytes, old.peak_bytes if old else 0)
        found[use.pid] = RankUse(use.pid, use.rank, use.name, peak, use.rss_bytes)
    return found


def _most(old: int | None, new: int | None) -> int | None:
    known = [value for value in (old, new) if value is not None]
    return max(known, default=None)


def _least(old: int | None, new: int | None) -> int | None:
    known = [value for value in (old, new) if value is not None]
    return min(known, default=None)
