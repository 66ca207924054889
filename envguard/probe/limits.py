"""Host-memory limits: physical memory, the cgroup ancestry, /dev/shm and ulimits."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Limits
from envguard.probe.probe_options import ProbeOptions, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNLIMITED_V1 = 1 << 60  # the kernel's "no limit" is LONG_MAX rounded down to a page
_OCTAL = r"\\([0-7]{3})"
_KIB = 1024


class CgroupMount(NamedTuple):
    """One mounted cgroup hierarchy that can hold memory limits.

    Args:
        version: 1 or 2.
        root: The cgroup that the mount point shows (``/`` unless only a part is mounted).
        point: Where it is mounted.
    """

    version: int
    root: str
    point: str


def probe_limits(options: ProbeOptions) -> tuple[Limits, tuple[Gap, ...]]:
    """Read every limit of host memory that the system shows, with a gap for each it hides."""
    memory, gaps = _memory(options)
    version, limit = probe_cgroup(options)
    shm, shm_gaps = _shm(options)
    memlock, space = _ulimits()
    limits = Limits(
        ram_bytes=memory.get("MemTotal"),
        available_bytes=memory.get("MemAvailable"),
        swap_bytes=memory.get("SwapTotal"),
        cgroup_bytes=limit,
        cgroup_version=version,
        shm_bytes=shm,
        memlock_bytes=memlock,
        address_space_bytes=space,
    )
    return limits, (*gaps, *shm_gaps)


def _memory(options: ProbeOptions) -> tuple[dict[str, int], tuple[Gap, ...]]:
    if sys.platform != "linux":
        return _psutil_memory(), ()
    try:
        memory = parse_meminfo(options.read("/proc/meminfo"))
    except OSError as err:
        return {}, (Gap("machine.limits.ram_bytes", reason_of(err), "procfs", str(err)),)
    if "MemTotal" not in memory:
        detail = "/proc/meminfo holds no MemTotal"
        return memory, (Gap("machine.limits.ram_bytes", GapReason.UNREADABLE, "procfs", detail),)
    return memory, ()


def _psutil_memory() -> dict[str, int]:
    import psutil

    memory = psutil.virtual_memory()
    swap = psutil.swap_memory()
    return {
        "MemTotal": memory.total,
        "MemAvailable": memory.available,
        "SwapTotal": swap.total,
    }


def parse_meminfo(text: str) -> dict[str, int]:
    """Read ``/proc/meminfo``.

    Returns:
        Bytes by name; lines that are not ``Name: number kB`` are left out.
    """
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[0].isascii() and words[0].isdigit() and words[1] == "kB":
            found[name] = int(words[0]) * _KIB
    return found


def _shm(options: ProbeOptions) -> tuple[int | None, tuple[Gap, ...]]:
    if sys.platform == "win32":
        return None, ()
    try:
        stat = os.statvfs(options.path("/dev/shm"))  # noqa: S108 # its size is the question  # its size is the question
    except OSError as err:
        return None, (Gap("machine.limits.shm_bytes", reason_of(err), "statvfs", str(err)),)
    return stat.f_frsize * stat.f_blocks, ()


def _ulimits() -> tuple[int | None, int | None]:
    """RLIMIT_MEMLOCK and RLIMIT_AS; None is unlimited, or no such limit on this system."""
    if sys.platform == "win32":
        return None, None
    import resource

    soft: list[int | None] = []
    for name in ("RLIMIT_MEMLOCK", "RLIMIT_AS"):
        kind = getattr(resource, name, None)
        value = resource.RLIM_INFINITY if kind is None else resource.getrlimit(kind)[0]
        soft.append(None if value == resource.RLIM_INFINITY else value)
    return soft[0], soft[1]


def probe_cgroup(options: ProbeOptions) -> tuple[int | None, int | None]:
    """Find the tightest memory limit from the process's own cgroup up to the mount point.

    A container often sees its own cgroup as the root of the mount; then the path in
    ``/proc/self/cgroup`` does not exist below it and the mount point itself is read.

    Returns:
        The cgroup version, None where no hierarchy with memory limits is mounted; and the
        limit in bytes, None where there is none.
    """
    mounts = parse_cgroup_mounts(options.read_or_none("/proc/self/mountinfo") or "")
    paths = parse_cgroup_paths(options.read_or_none("/proc/self/cgroup") or "")
    mounts = [mount for mount in mounts if mount.version in paths] or mounts
    if not mounts:
        return None, None
    # With both mounted (hybrid), the memory controller is bound to one: version 1 where present.
    mount = min(mounts, key=lambda m: m.version)
    values = [_limit_of(options, mount, name) for name in _ancestry(options, mount, paths)]
    known = [value for value in values if value is not None]
    return mount.version, min(known, default=None)


def parse_cgroup_paths(text: str) -> dict[int, str]:
    """Read ``/proc/self/cgroup``.

    Returns:
        The process's cgroup by version: 1 for the memory controller's hierarchy, 2 for the
        unified one.
    """
    found: dict[int, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and controllers == "":
            found[2] = path
        elif "memory" in controllers.split(","):
            found[1] = path
    return found


def parse_cgroup_mounts(text: str) -> list[CgroupMount]:
    """Read the cgroup mounts that can hold memory limits out of ``/proc/self/mountinfo``.

    Source: proc_pid_mountinfo(5): root and mount point are fields 4 and 5; type and options
    of the file system stand behind the separator `` - ``.
    """
    found = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if not separator or len(fields) < 5 or not tail:
            continue
        root, point = unescape(fields[3]), unescape(fields[4])
        if tail[0] == "cgroup2":
            found.append(CgroupMount(2, root, point))
        elif tail[0] == "cgroup" and "memory" in tail[-1].split(","):
            found.append(CgroupMount(1, root, point))
    return found


def unescape(text: str) -> str:
    """A path as ``/proc/self/mountinfo`` writes it: spaces and the like are octal."""
    return re.sub(_OCTAL, lambda match: chr(int(match[1], 8)), text) if "\\" in text else text


def _ancestry(options: ProbeOptions, mount: CgroupMount, paths: dict[int, str]) -> Iterable[str]:
    """The folders from the process's cgroup up to the mount point, the mount point last."""
    inner = _inside(mount, paths.get(mount.version, "/"))
    while inner:
        if options.path(f"{mount.point}/{inner}").is_dir():
            yield f"{mount.point}/{inner}"
        inner = inner.rpartition("/")[0]
    yield mount.point


def _inside(mount: CgroupMount, path: str) -> str:
    """A cgroup's path below the mount point; empty for the mount point itself."""
    root = mount.root.rstrip("/")
    if ".." in path.split("/"):
        return ""  # outside this cgroup namespace
    if path == root or path.startswith(f"{root}/"):
        path = path.removeprefix(root)
    return path.strip("/")


def _limit_of(options: ProbeOptions, mount: CgroupMount, folder: str) -> int | None:
    if mount.version == 2:
        return _bytes_or_none(options.read_or_none(f"{folder}/memory.max"))
    own = _bytes_or_none(options.read_or_none(f"{folder}/memory.limit_in_bytes"))
    stat = options.read_or_none(f"{folder}/memory.stat") or ""
    rows = (line.split() for line in stat.splitlines())
    words = next((row[1] for row in rows if row[:1] == ["hierarchical_memory_limit"]), None)
    inherited = _bytes_or_none(words)  # also counts ancestors that the mount does not show
    return min((n for n in (own, inherited) if n is not None), default=None)


def _bytes_or_none(text: str | None) -> int | None:
    """A limit; None for ``max``, for version 1's huge number and for anything malformed."""
    digits = (text or "").strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:
        return None
    value = int(digits)
    return None if value >= _UNLIMITED_V1 else value
