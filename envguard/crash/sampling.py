"""Samples of a process tree: memory of each process, of its cgroup and of the machine."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envguard.crash.cgroup import CgroupUse, find_cgroup, read_cgroup

if TYPE_CHECKING:
    from collections.abc import Iterator

SHM = Path("/dev/shm")  # noqa: S108 - its use is measured, nothing is written there
_IS_LINUX = sys.platform.startswith("linux")
_LIST_EVERY_S = 5.0
_LIST_SHARE = 0.003
_PSS_EVERY_S = 60.0
_PSS_MOST_BYTES = 64 * 2**30  # walking the pages of a larger tree takes too long
_PSS_MOST_PROCESSES = 32


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


class Sampler:
    """Reads samples of a tree, at a cost that it measures.

    Args:
        pid: The root of the tree.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._files = find_cgroup()
        self._known: dict[int, tuple[str, str]] = {}
        self._listed_at = 0.0
        self._list_every_s = _LIST_EVERY_S
        self._pss_at = time.monotonic()
        self._page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

    def read(self, *, relist: bool = False) -> Sample:
        """Take a sample.

        Args:
            relist: Look for new processes now, and not only every few seconds.
        """
        now = time.monotonic()
        if relist or now - self._listed_at >= self._list_every_s or not self._known:
            self._known = dict(self._list())
            self._listed_at = now
            # Listing walks all processes of the machine: the longer it takes, the rarer it is done.
            took = time.monotonic() - now
            self._list_every_s = max(_LIST_EVERY_S, took / _LIST_SHARE)
        memory = _meminfo()
        used, size = _shm()
        return Sample(
            time.time(),
            tuple(self._uses(now)),
            read_cgroup(self._files),
            memory.get("MemAvailable"),
            memory["SwapTotal"] - memory["SwapFree"] if "SwapFree" in memory else None,
            used,
            size,
        )

    def _list(self) -> Iterator[tuple[int, tuple[str, str]]]:
        import psutil

        try:
            root = psutil.Process(self._pid)
            tree = [root, *root.children(recursive=True)]
        except (psutil.Error, OSError):  # gone, or no handle is free now
            return
        for process in tree:
            known = self._known.get(process.pid)
            yield process.pid, known or _describe(process)

    def _uses(self, now: float) -> Iterator[ProcessUse]:
        plain = [use for pid in self._known if (use := self._use(pid)) is not None]
        if now - self._pss_at < _PSS_EVERY_S:
            yield from plain
            return
        self._pss_at = now
        total = sum(use.rss_bytes for use in plain)
        small = total <= _PSS_MOST_BYTES and len(plain) <= _PSS_MOST_PROCESSES
        for use in plain:
            pss = _pss(use.pid) if small else None
            yield ProcessUse(use.pid, use.rank, use.name, use.rss_bytes, use.shared_bytes, pss)

    def _use(self, pid: int) -> ProcessUse | None:
        rank, name = self._known[pid]
        if _IS_LINUX:
            words = _read(f"/proc/{pid}/statm").split()
            if len(words) < 3:
                return None
            return ProcessUse(
                pid, rank, name, int(words[1]) * self._page, int(words[2]) * self._page
            )
        import psutil

        try:
            return ProcessUse(pid, rank, name, psutil.Process(pid).memory_info().rss)
        except psutil.Error:
            return None


def _describe(process: Any) -> tuple[str, str]:
    """The rank in a process's environment and its name; empty where not readable."""
    import psutil

    try:
        variables = process.environ()
        name = process.name()
    except (psutil.Error, OSError):
        return "", ""
    rank = variables.get("RANK") or variables.get("LOCAL_RANK") or variables.get("SLURM_PROCID")
    return rank or "", name


def _pss(pid: int) -> int | None:
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return None


def _meminfo() -> dict[str, int]:
    if not _IS_LINUX:
        import psutil

        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        return {"MemAvailable": memory.available, "SwapTotal": swap.total, "SwapFree": swap.free}
    found: dict[str, int] = {}
    for line in _read("/proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name in {"MemAvailable", "SwapTotal", "SwapFree"}:
            found[name] = int(rest.split()[0]) * 1024
    return found


def _shm() -> tuple[int | None, int | None]:
    try:
        stat = os.statvfs(SHM)
    except (OSError, AttributeError):  # Windows has no statvfs
        return None, None
    size = stat.f_blocks * stat.f_frsize
    return size - stat.f_bavail * stat.f_frsize, size


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123 - hot path
            return file.read()
    except OSError:
        return ""
