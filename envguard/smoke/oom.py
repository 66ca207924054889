"""Counts of the kernel's out-of-memory kills in this process's memory cgroups."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_KILLS = re.compile(r"^oom_kill ([0-9]{1,18})$", re.MULTILINE)
_LIMIT_HITS = re.compile(r"^oom ([0-9]{1,18})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OomCounts:
    """What the nearest memory cgroup counts; both 0 where there is none.

    Args:
        kills: Processes that an out-of-memory killer ended, whatever its reason.
        limit_hits: Times that the group's own limit was the reason (cgroup v2 only).
    """

    kills: int = 0
    limit_hits: int = 0

    def since(self, before: OomCounts) -> OomCounts:
        """What was added since an earlier reading."""
        return OomCounts(self.kills - before.kills, self.limit_hits - before.limit_hits)


def read_oom_counts(proc: Path = Path("/proc"), sys_fs: Path = Path("/sys/fs/cgroup")) -> OomCounts:
    """Read the counters of the cgroup that this process, and so its child, is in.

    Source: kernel Documentation/admin-guide/cgroup-v2.rst, ``memory.events``; cgroup-v1/memory.rst,
    ``memory.oom_control``.
    """
    for line in _read(proc / "self" / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if "memory" in controllers.split(","):
            text = _nearest(sys_fs / "memory", group, "memory.oom_control")
        elif number == "0":
            text = _nearest(sys_fs, group, "memory.events")
        else:
            continue
        if _KILLS.search(text):
            return OomCounts(_count(_KILLS, text), _count(_LIMIT_HITS, text))
    return OomCounts()


def _nearest(root: Path, group: str, name: str) -> str:
    """The file in the group's folder; a container often mounts the group itself as the root."""
    return _read(root / group.lstrip("/") / name) or _read(root / name)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _count(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return int(match[1]) if match else 0
