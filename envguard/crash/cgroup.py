"""The memory cgroup of this process and so of what it starts: use, limit, kills."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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


def find_cgroup(proc: Path = Path("/proc"), root: Path = Path("/sys/fs/cgroup")) -> CgroupFiles:
    """Find the files of the cgroup that this process is in.

    In a container the mount often shows the group itself as its root.
    """
    for line in _read(proc / "self" / "cgroup").splitlines():
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
        limit = _number(_read(folder / name))
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
    stat = _pairs(_read(folder / "memory.stat"))
    events = _pairs(_read(own / "memory.events"))
    return CgroupUse(
        _without_cache(_number(_read(folder / "memory.current")), stat.get("inactive_file")),
        _number(_read(folder / "memory.max")),
        _number(_read(folder / "memory.swap.current")),
        stat.get("shmem"),
        events.get("oom_kill"),
    )


def _read_v1(folder: Path, own: Path) -> CgroupUse:
    stat = _pairs(_read(folder / "memory.stat"))
    control = _pairs(_read(own / "memory.oom_control"))
    used = _number(_read(folder / "memory.usage_in_bytes"))
    limit = stat.get("hierarchical_memory_limit") or _number(
        _read(folder / "memory.limit_in_bytes")
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


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
