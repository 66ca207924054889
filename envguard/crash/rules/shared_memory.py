"""Shared memory and memory-mapped files: SIGBUS."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.crash.exits import SIGBUS
from envguard.crash.phases import Phase
from envguard.crash.rules.model import Outcome, make_finding
from envguard.facts.findings import Evidence, Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.crash.log import Hit

SHM_FOLDER = "/dev/shm"  # noqa: S108 - looked for in texts, nothing is written there

SHM = Outcome(
    "CRS049",
    "shm-too-small",
    "the shared memory in /dev/shm is too small",
    "NCCL and data loader workers keep shared memory there; a container gives it 64 MB unless told "
    "otherwise, and writing past it is a bus error.",
    "start the container with --shm-size=8g or --ipc=host (Kubernetes: an emptyDir of medium "
    "Memory at /dev/shm)",
)
STORAGE = Outcome(
    "CRS051",
    "sigbus-from-mmap-storage",
    "the storage behind a memory-mapped file failed",
    "A mapped page that cannot be read is a bus error: a file that was cut, a full or lost network "
    "file system.",
    "read the data files end to end from the same place, and look at the mount and the kernel log",
)
LEAK = Outcome(
    "CRS050",
    "shm-leak",
    "files that were left in /dev/shm fill it, or the memory limit",
    "Shared memory outlives the processes that made it, and it counts against the container's "
    "memory limit.",
    "look at what lies in /dev/shm when nothing runs, and remove it; then end workers properly",
    ("ls", "-l", SHM_FOLDER),
)
_SMALL = 2**30
LARGE = 8 * 2**30
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"([\d.]{1,12})\s?([KMGT]?)", re.IGNORECASE)


def parse_df_size(text: str) -> int | None:
    """``64M`` or ``254G`` in bytes; a bare number is 1 KiB blocks, as df prints them."""
    match = _SIZE.match(text)
    if match is None or match[1].count(".") > 1 or match[1] == ".":
        return None
    unit = match[2].upper()
    return int(float(match[1]) * (_UNITS[unit] if unit else 1024))


def shm_size(case: Case) -> tuple[int | None, Hit | None]:
    """How large /dev/shm was, and which line says so."""
    hit = case.log.last("shm-size")
    if hit is not None:
        return parse_df_size(hit.groups["size"]), hit
    hit = case.log.last("shm-docker-words")
    if hit is not None:
        text = hit.groups.get("size") or f"{hit.groups.get('size2') or hit.groups['size3']}M"
        bare = text.isdecimal()
        return (int(text) if bare else parse_df_size(text)), hit
    return case.facts.machine.limits.shm_bytes, None


def check_shared_memory_leak(case: Case) -> Iterator[Finding]:
    """Shared memory that nobody holds any more: leaked, or most of what a killed process had."""
    for hit in case.log.all("kernel-oom-memcg", "kernel-oom-global"):
        anonymous, shared = hit.number("anon"), hit.number("shmem")
        if shared is not None and shared * 1024 > _SMALL and shared > 2 * (anonymous or 0):
            more = (
                Evidence("shared memory of the victim", f"{shared / 2**20:.1f} GiB", hit.place),
            )
            yield make_finding(case, LEAK, Status.FAIL, (hit,), more=more)
            return
    leaked = case.hits("shm-leaked")
    if leaked:
        full = any(SHM_FOLDER in hit.text for hit in case.log.all("enospc"))
        status = Status.FAIL if full and (shm_size(case)[0] or 0) > LARGE else Status.WARN
        yield make_finding(case, LEAK, status, leaked)


def check_shared_memory(case: Case) -> Iterator[Finding]:
    """Shared memory that ran out: said in words, or a bus error with something to show for it."""
    said = case.hits("nccl-shm", "shm-torch-file")
    full = [hit for hit in case.log.all("enospc") if SHM_FOLDER in hit.text]
    if said or full:
        yield make_finding(case, SHM, Status.FAIL, (*said, *full[:1]))
        return
    if case.signal != SIGBUS and not case.log.has("dl-bus"):
        return
    size, hit = shm_size(case)
    hits = (*case.hits("dl-bus", "caught-signal", "nccl-frame", "torchrun-signal"),)
    hits = (*hits, hit) if hit is not None else hits
    if size is not None and size > LARGE:
        return  # it is large: suspects speak of it
    more = () if size is None else (Evidence(SHM_FOLDER, f"{size / 2**20:.0f} MiB", "log"),)
    if size is not None and size <= _SMALL:
        yield make_finding(case, SHM, Status.FAIL, hits, more=more)
    elif case.log.has("nccl-frame"):
        why = "NCCL stands in the stack: its shared-memory transport maps files there."
        yield make_finding(case, SHM, Status.FAIL, hits, more=more, detail=why)
    elif case.log.has("dl-bus") and case.log.has("container-words"):
        yield make_finding(case, SHM, Status.FAIL, (*hits, *case.hits("container-words")))
    elif case.phase is Phase.INIT and (case.ranks or 1) > 1 and not case.log.has("dl-bus"):
        why = "The ranks were being joined, which is when NCCL creates its files there."
        yield make_finding(case, SHM, Status.FAIL, hits, detail=why)
