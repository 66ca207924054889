"""What a signal leaves to suspect when nothing else is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.phases import Phase
from envguard.crash.rules import shared_memory as shm
from envguard.crash.rules.measured import no_kill_was_counted
from envguard.crash.rules.native import crash_library
from envguard.crash.suspicion import Suspect, suspect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

_AGAIN = ("envguard", "run", "--")
_NO_WORD = "no word of the kernel or of a limit in this log"
_FAULTHANDLER = ("env", "PYTHONFAULTHANDLER=1")


def suspect_kill(case: Case) -> Iterator[Suspect]:
    """SIGKILL without evidence: memory by phase, a limit, the machine, someone else."""
    counted = no_kill_was_counted(case)
    against = "the memory cgroup counted no kill during this run" if counted else _NO_WORD
    outside = suspect(
        "killed-from-outside", against="" if counted else "no words of a scheduler in this log"
    )
    if counted:
        yield outside
    yield from _by_phase(case, against)
    yield suspect("container-memory-limit", against=against)
    yield suspect("host-memory-exhausted.kill", against=against)
    if case.phase is None:
        yield suspect("host-oom-load")
    if not counted:
        yield outside


def _by_phase(case: Case, against: str) -> Iterator[Suspect]:
    has_offload = case.log.has("offload-words", "deepspeed-words")
    if case.phase is Phase.TRAIN:
        yield suspect("host-oom-growth", against=against)
    if has_offload and case.phase in {Phase.TRAIN, Phase.INIT, None}:
        yield suspect("host-oom-optimizer-offload", against=against)


def suspect_segfault(case: Case) -> Iterator[Suspect]:
    """SIGSEGV: the library that is named, shadowed libraries, an extension, NCCL's transport."""
    early = case.phase in {Phase.IMPORT, Phase.INIT, None}
    found = crash_library(case)
    where = f" in {found[1]}" if found else ""
    if _is_in_nccl(case):
        yield _transport("NCCL stands in the stack")
    if case.log.has("convolution-words") or "cudnn" in where:
        yield _shadow("it crashed in cuDNN, the library that is most often found twice")
    yield suspect("unknown-segfault", where=where)
    if case.log.has("deepspeed-words") and case.phase is Phase.INIT:
        yield suspect("shm-too-small.segfault")
        if not _is_in_nccl(case):
            yield _transport("the ranks were being joined")
    if early and not case.log.has("convolution-words"):
        yield _shadow("it crashed at the start")
    yield suspect("extension-crash", against="" if early else "it ran for a while")


def _is_in_nccl(case: Case) -> bool:
    found = crash_library(case)
    return case.log.has("nccl-frame") or (found is not None and "nccl" in found[1])


def _transport(speaks: str) -> Suspect:
    return suspect("nccl-intra-node-transport.transport", speaks=speaks)


def _shadow(speaks: str) -> Suspect:
    return suspect("ld-library-path-shadow.shadow", speaks=speaks)


def suspect_bus(case: Case) -> Iterator[Suspect]:
    """SIGBUS: shared memory or the storage behind a mapping; the size of /dev/shm orders them."""
    size, _ = shm.shm_size(case)
    is_large = size is not None and size > shm.LARGE
    place = f"it holds {size / 2**30:.0f} GiB" if is_large and size else "its size is not known"
    small = suspect(
        "shm-too-small",
        speaks="torch's own message guesses it"
        if case.log.has("dl-bus")
        else "most SIGBUS come from it",
        against=place,
    )
    storage = suspect("sigbus-from-mmap-storage")
    yield from (storage, small) if is_large else (small, storage)


def suspect_abort(case: Case) -> Iterator[Suspect]:
    """SIGABRT: whoever called abort said so on stderr."""
    yield suspect("native-abort")


def suspect_illegal(case: Case) -> Iterator[Suspect]:
    """SIGILL and SIGFPE."""
    yield suspect("cpu-lacks-instructions")


def suspect_term(case: Case) -> Iterator[Suspect]:
    """SIGTERM: it follows from something else."""
    yield suspect("sigterm-from-supervisor.term")
