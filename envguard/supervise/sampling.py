"""Samples of a process tree: memory of processes, cgroup, GPUs and machine."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import envguard
from envguard.crash.samples import CgroupUse, ProcessUse, Sample
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator


_UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class CgroupFiles:
    """Where the figures of the nearest memory cgroup lie.

    Args:
        folder: The group whose limit is the tightest, from the process's own upwards; its own
            where no limit is set; None where there is none.
        own: The process's own group, which counts the kills.
        version: 1 or 2.
    """

    folder: Path | None = None
    own: Path | None = None
    version: int = 2


def find_cgroup(proc: Path = Path("/proc"), root: Path = Path("/sys/fs/cgroup")) -> CgroupFiles:
    """Find the files of the cgroup that this process is in.

    In a container the mount often shows the group itself as its root.
    """
    for line in _read_file(proc / "self" / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if "memory" in controllers.split(","):
            top, names = root / "memory", ("memory.usage_in_bytes", "memory.limit_in_bytes")
        elif number == "0":
            top, names = root, ("memory.current", "memory.max")
        else:
            continue
        own = _existing(top, group, names[0])
        if own is not None:
            return CgroupFiles(_tightest(own, top, names[1]), own, 2 if number == "0" else 1)
    return CgroupFiles()


def _tightest(own: Path, top: Path, name: str) -> Path:
    """The group with the smallest limit between a group and the top of the hierarchy."""
    found, smallest = own, _UNLIMITED
    for folder in (own, *own.parents):
        limit = _number(_read_file(folder / name))
        if limit is not None and limit < smallest:
            found, smallest = folder, limit
        if folder == top:
            break
    return found


def _existing(root: Path, group: str, name: str) -> Path | None:
    for folder in (root / group.lstrip("/"), root):
        if (folder / name).is_file():
            return folder
    return None


def read_cgroup(files: CgroupFiles) -> CgroupUse:
    """Read the figures now.

    Source: kernel Documentation/admin-guide/cgroup-v2.rst; cgroup-v1/memory.rst.
    """
    if files.folder is None:
        return CgroupUse()
    own = files.own or files.folder
    return _read_v2(files.folder, own) if files.version == 2 else _read_v1(files.folder, own)


def _read_v2(folder: Path, own: Path) -> CgroupUse:
    stat = _pairs(_read_file(folder / "memory.stat"))
    events = _pairs(_read_file(own / "memory.events"))
    return CgroupUse(
        _without_cache(_number(_read_file(folder / "memory.current")), stat.get("inactive_file")),
        _number(_read_file(folder / "memory.max")),
        _number(_read_file(folder / "memory.swap.current")),
        stat.get("shmem"),
        events.get("oom_kill"),
    )


def _read_v1(folder: Path, own: Path) -> CgroupUse:
    stat = _pairs(_read_file(folder / "memory.stat"))
    control = _pairs(_read_file(own / "memory.oom_control"))
    used = _number(_read_file(folder / "memory.usage_in_bytes"))
    limit = stat.get("hierarchical_memory_limit") or _number(
        _read_file(folder / "memory.limit_in_bytes")
    )
    return CgroupUse(
        _without_cache(used, stat.get("total_inactive_file")),
        limit if limit is not None and limit < _UNLIMITED else None,
        stat.get("total_swap"),
        stat.get("total_shmem"),
        control.get("oom_kill"),
    )


def _without_cache(used: int | None, cache: int | None) -> int | None:
    return None if used is None else max(0, used - (cache or 0))


def _number(text: str) -> int | None:
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None


def _pairs(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        number = _number(value)
        if number is not None:
            found[name] = number
    return found


def _read_file(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


_CHILD = Path(envguard.__file__).parent / "probe" / "_gpu_memory_child.py"
_LONGEST_LINE = 1 << 20


class GpuWatch:
    """A child that prints readings; NVML can hang or crash, and then takes only the child along.

    Args:
        interval_s: Seconds between readings.
    """

    def __init__(self, interval_s: float) -> None:
        self._rest = b""
        self._child: subprocess.Popen[bytes] | None = None
        if not any(Path(place).exists() for place in ("/dev/nvidiactl", "/dev/dxg")):
            return
        with contextlib.suppress(OSError):
            self._child = subprocess.Popen(
                [sys.executable, "-I", str(_CHILD), str(interval_s)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
            if self._child.stdout is not None:
                os.set_blocking(self._child.stdout.fileno(), False)

    def readings(self) -> Iterator[object]:
        """What came since the last call."""
        if self._child is None or self._child.stdout is None:
            return
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._child.stdout.fileno(), 1 << 16):
                self._rest = (self._rest + data)[-_LONGEST_LINE:]
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                yield json.loads(line)

    def close(self) -> None:
        """End the child; one that hangs in the driver is left to itself."""
        if self._child is None:
            return
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._child.wait(1)
        except subprocess.TimeoutExpired:
            self._child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(1)


SHM = Path("/dev/shm")  # noqa: S108 - its use is measured, nothing is written there
_IS_LINUX = sys.platform.startswith("linux")
_LIST_EVERY_S = 5.0
_LIST_SHARE = 0.003
_PSS_EVERY_S = 60.0
_PSS_MOST_BYTES = 64 * 2**30  # walking the pages of a larger tree takes too long
_PSS_MOST_PROCESSES = 32


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
