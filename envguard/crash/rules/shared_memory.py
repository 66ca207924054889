"""Shared memory and memory-mapped files: SIGBUS."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.crash.cause_findings import make_finding
from envguard.crash.exits import SIGBUS
from envguard.crash.phases import Phase
from envguard.facts.findings import Evidence, Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.signatures import SignatureMatch

SHM_FOLDER = "/dev/shm"  # noqa: S108 - looked for in texts, nothing is written there

SMALL = 2**30
LARGE = 8 * 2**30
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"([\d.]{1,12})\s?([KMGT]?)", re.IGNORECASE)
_FULL = re.compile(SHM_FOLDER + r"\b[^.\n]{0,60}\bfull\b")


def parse_df_size(text: str) -> int | None:
    """``64M`` or ``254G`` in bytes; a bare number is 1 KiB blocks, as df prints them."""
    match = _SIZE.match(text)
    if match is None or match[1].count(".") > 1 or match[1] == ".":
        return None
    unit = match[2].upper()
    return int(float(match[1]) * (_UNITS[unit] if unit else 1024))


def shm_size(case: Case) -> tuple[int | None, SignatureMatch | None]:
    """How large /dev/shm was, and which line says so."""
    hit = case.log.last("shm-size")
    if hit is not None:
        return parse_df_size(hit.groups["size"]), hit
    hit = case.log.last("shm-docker-words")
    if hit is not None:
        text = hit.groups.get("size") or f"{hit.groups.get('size2') or hit.groups['size3']}M"
        bare = text.isdecimal()
        return (int(text) if bare else parse_df_size(text)), hit
    hit = case.log.last("shm-size-words")
    if hit is not None:
        return parse_df_size(hit.groups.get("size") or hit.groups["size2"]), hit
    return case.facts.machine.limits.shm_bytes, None


def check_shared_memory_leak(case: Case) -> Iterator[Finding]:
    """Shared memory that nobody holds any more: leaked, or most of what a killed process had."""
    for hit in case.log.all("kernel-oom-memcg", "kernel-oom-global"):
        anonymous, shared = hit.number("anon"), hit.number("shmem")
        if shared is not None and shared * 1024 > SMALL and shared > 2 * (anonymous or 0):
            more = (
                Evidence("shared memory of the victim", f"{shared / 2**20:.1f} GiB", hit.place),
            )
            yield make_finding(case, "shm-leak", Status.FAIL, (hit,), more=more)
            return
    seen, guessed = case.matches("shm-left-words"), case.matches("shm-leaked")
    if not seen and not guessed:
        return
    full = any(SHM_FOLDER in hit.text for hit in case.log.all("enospc"))
    full = full or case.log.has("nccl-shm", "nccl-shm-old", "shm-torch-file")
    full = full or any(_FULL.search(hit.text) for hit in seen)
    if not full and case.root_exit is None and case.exit_code in {None, 0}:
        return  # nothing died of it
    size = shm_size(case)[0]
    enough = (size or LARGE) >= SMALL if seen else (size or 0) > LARGE
    status = Status.FAIL if full and enough else Status.WARN
    yield make_finding(case, "shm-leak", status, (*seen, *guessed))


def check_shared_memory(case: Case) -> Iterator[Finding]:
    """Shared memory that ran out: said in words, or a bus error with something to show for it."""
    said = case.matches("nccl-shm", "nccl-shm-old", "shm-torch-file", "k8s-evicted-shm")
    full = [hit for hit in case.log.all("enospc") if SHM_FOLDER in hit.text]
    if said or full:
        yield make_finding(case, "shm-too-small", Status.FAIL, (*said, *full[:1]))
        return
    worker = _worker_matches(case)
    if (case.signal != SIGBUS and not worker) or storage_matches(case):
        return
    size, hit = shm_size(case)
    hits = (*worker, *case.matches("caught-signal", "nccl-frame", "torchrun-signal"))
    hits = (*hits, hit) if hit is not None else hits
    if size is not None and size > LARGE:
        return  # it is large: hypotheses name it
    more = () if size is None else (Evidence(SHM_FOLDER, f"{size / 2**20:.0f} MiB", "log"),)
    if size is not None and size <= SMALL:
        yield make_finding(case, "shm-too-small", Status.FAIL, hits, more=more)
    elif case.log.has("nccl-frame"):
        why = "NCCL stands in the stack: its shared-memory transport maps files there."
        yield make_finding(case, "shm-too-small", Status.FAIL, hits, more=more, detail=why)
    elif worker and case.log.has("container-words"):
        yield make_finding(
            case, "shm-too-small", Status.FAIL, (*hits, *case.matches("container-words"))
        )
    elif case.phase is Phase.INIT and (case.ranks or 1) > 1 and not worker:
        why = "The ranks were being joined, which is when NCCL creates its files there."
        yield make_finding(case, "shm-too-small", Status.FAIL, hits, detail=why)


def _worker_matches(case: Case) -> tuple[SignatureMatch, ...]:
    """Lines about a bus error in a data loader's worker."""
    killed = (hit for hit in case.log.all("dl-killed") if hit.groups["s"].startswith("Bus error"))
    return (*case.matches("dl-bus", "dl-shm-hint"), *tuple(killed)[:1])


def check_mapped_storage(case: Case) -> Iterator[Finding]:
    """A bus error while mapped files were read, with the storage or the stack to show for it."""
    hits = storage_matches(case)
    if hits:
        yield make_finding(case, "sigbus-from-mmap-storage", Status.FAIL, hits)


def storage_matches(case: Case) -> tuple[SignatureMatch, ...]:
    """The lines that lay a bus error at the storage's door; empty when none do.

    Mapped files together with a network file system; errors of the storage; or the stack of the
    crash going through code that reads mapped files.
    """
    log = case.log
    if case.signal != SIGBUS or log.has("nccl-shm", "shm-torch-file", "dl-shm-hint"):
        return ()
    size, _ = shm_size(case)
    if size is not None and size <= SMALL:
        return ()
    if log.has("mmap-words", "mmap-frame") and log.has("network-storage-words"):
        return case.matches("mmap-words", "mmap-frame", "network-storage-words", "io-error-words")
    if log.has("faulthandler-segv") and log.has("mmap-frame"):
        return case.matches("faulthandler-segv", "mmap-frame")
    return case.matches("io-error-words")


def check_removed_shared_memory(case: Case) -> Iterator[Finding]:
    """Shared memory that is gone, in a log that speaks of sessions that ended."""
    hits = case.matches("shm-vanished")
    ended = case.matches("logind-words")
    if hits and ended:
        yield make_finding(case, "shm-removed-by-logind", Status.FAIL, (*hits, *ended))
