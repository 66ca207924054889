"""One sample of a running process tree, as a record keeps it and a diagnosis reads it."""

from __future__ import annotations

from dataclasses import field

from envguard.values import dataclass


@dataclass(frozen=True, slots=True)
class CgroupUse:
    """One reading.

    Args:
        used_bytes: Use without inactive page cache, which the kernel gives back before it kills.
        limit_bytes: The limit; None when there is none.
        swap_bytes: Swapped out; None when not known.
        shmem_bytes: Shared memory and tmpfs that are charged to the group.
        oom_kills: Processes of the group that an out-of-memory killer ended since it was made.
    """

    used_bytes: int | None = None
    limit_bytes: int | None = None
    swap_bytes: int | None = None
    shmem_bytes: int | None = None
    oom_kills: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """Memory of one process.

    Args:
        pid: Process.
        rank: Its rank, from its environment; empty when it has none.
        name: Command.
        rss_bytes: Resident memory, shared pages included.
        shared_bytes: Of it, shared with other processes or files.
        pss_bytes: Proportional share; None between the rare times it is read.
    """

    pid: int
    rank: str
    name: str
    rss_bytes: int
    shared_bytes: int | None = None
    pss_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """Everything at one moment.

    Args:
        t: Seconds since the epoch.
        processes: The tree.
        cgroup: Its memory cgroup.
        available_bytes: MemAvailable of the machine.
        swap_used_bytes: Swap in use on the machine.
        shm_used_bytes: In use in /dev/shm.
        shm_bytes: Size of /dev/shm.
    """

    t: float
    processes: tuple[ProcessUse, ...] = ()
    cgroup: CgroupUse = field(default_factory=CgroupUse)
    available_bytes: int | None = None
    swap_used_bytes: int | None = None
    shm_used_bytes: int | None = None
    shm_bytes: int | None = None

    @property
    def total_bytes(self) -> int:
        """Private memory of all, and the largest shared part once."""
        shared = max((p.shared_bytes or 0 for p in self.processes), default=0)
        return shared + sum(p.rss_bytes - (p.shared_bytes or 0) for p in self.processes)
