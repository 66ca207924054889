"""Hypotheses where nothing is established: ranked, each with one experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.breaks import known_values
from envguard.conditions import bug_holds
from envguard.crash.case import last_trouble, own_exceptions, went_on, worked_after
from envguard.crash.exits import SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGTERM
from envguard.crash.findings import Suspect, suspect, suspect_finding, suspects_told
from envguard.crash.phases import Phase
from envguard.crash.rules import shared_memory as shm
from envguard.crash.rules.gpu_code import is_served
from envguard.crash.rules.host_memory import no_kill_was_counted
from envguard.crash.rules.native import bug_finding, crash_library, shown_by
from envguard.crash.rules.packages import suspect_breaks
from envguard.facts.findings import Finding, Status
from envguard.facts.sentences import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from envguard.crash.case import Case


def suspect_nvml(case: Case) -> Iterator[Suspect]:
    """Hypotheses from words about NVML, unless the program worked after them."""
    hits = case.hits("nvml-not-started", "nvml-missing")
    if not hits or worked_after(case, hits[-1]):
        return
    yield suspect("no-gpu-visible")
    yield suspect("nvml-cgroup-reload")
    yield suspect("nvml-kernel-userspace-mismatch")
    yield suspect("nvml-missing-tegra")


_NO_WORD = "no word of the kernel or of a limit in this log"
# Ranks that differ from those of the rows: where more is known, a hypothesis stands elsewhere.
_FIRST_OF_SIGNAL, _BEHIND_SHM, _AT_START, _BEHIND_STORAGE = 600, 640, 650, 620
_BEFORE_OTHERS_MEMORY = 300


def suspect_kill(case: Case) -> Iterator[Suspect]:
    """SIGKILL without evidence: memory by phase, a limit, the machine, someone else."""
    counted = no_kill_was_counted(case)
    against = "the memory cgroup counted no kill during this run" if counted else _NO_WORD
    yield from _by_phase(case, against)
    yield suspect("container-memory-limit", against=against)
    yield suspect("host-memory-exhausted.kill", against=against)
    if counted:
        yield suspect("killed-from-outside", against="", rank=_FIRST_OF_SIGNAL)
    else:
        yield suspect("killed-from-outside", against="no words of a scheduler in this log")


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
    where = say(" in {library}", library=found[1]) if found else ""
    if _is_in_nccl(case):
        yield _transport("NCCL stands in the stack")
    elif case.log.has("deepspeed-words") and case.phase is Phase.INIT:
        yield _transport("the ranks were being joined", rank=_BEHIND_SHM)
    if case.log.has("convolution-words") or "cudnn" in where:
        yield _shadow("it crashed in cuDNN, the library that is most often found twice")
    elif early:
        yield _shadow("it crashed at the start", rank=_AT_START)
    yield suspect("unknown-segfault", where=where)
    yield suspect("extension-crash", against="" if early else "it ran for a while")


def _is_in_nccl(case: Case) -> bool:
    found = crash_library(case)
    return case.log.has("nccl-frame") or (found is not None and "nccl" in found[1])


def _transport(speaks: str, **more: object) -> Suspect:
    return suspect("nccl-intra-node-transport.transport", speaks=speaks, **more)


def _shadow(speaks: str, **more: object) -> Suspect:
    return suspect("ld-library-path-shadow.shadow", speaks=speaks, **more)


def suspect_bus(case: Case) -> Iterator[Suspect]:
    """SIGBUS: shared memory or the storage behind a mapping; the size of /dev/shm orders them."""
    size, _ = shm.shm_size(case)
    is_large = size is not None and size > shm.LARGE
    place = (
        say("it holds {size:.0f} GiB", size=size / 2**30)
        if is_large and size
        else say("its size is not known")
    )
    guessed = case.log.has("dl-bus")
    yield suspect(
        "shm-too-small",
        speaks="torch's own message guesses it" if guessed else "most SIGBUS come from it",
        against=place,
        **({"rank": _BEHIND_STORAGE} if is_large else {}),
    )
    yield suspect("sigbus-from-mmap-storage")


_CODE_WORDS = ("capability-words", "arch-complaint")


def suspect_words(case: Case) -> Iterator[Suspect]:
    """Hypotheses from words together with facts and figures."""
    if case.log.has("not-available-words", "cuda-unknown-999") and (
        case.log.has("wsl-words") or case.facts.machine.host.is_wsl
    ):
        yield suspect("wsl-driver-shadow")
    if case.log.has(*_CODE_WORDS) and not (case.log.has("no-kernel-image") or is_served(case)):
        yield suspect("wrong-install-active")
        yield suspect("arch-missing-old-gpu")
        yield suspect("arch-missing-new-gpu")
    if case.log.has("cuda-oom-bare") and case.log.has("offload-words"):
        yield suspect("pinned-host-memory-limit", rank=_BEFORE_OTHERS_MEMORY)
    yield from suspect_nvml(case)
    yield from _nccl_error(case)
    yield from _cuda_error(case)


def _nccl_error(case: Case) -> Iterator[Suspect]:
    hit = case.log.first("nccl-error-in")
    row = case.table.nccl_error(hit.groups["err"]) if hit is not None else None
    if row is not None:
        yield suspect("nccl-error", name=row.name, note=row.note)


def _cuda_error(case: Case) -> Iterator[Suspect]:
    """An error of the table that no rule speaks of."""
    for hit in case.log.all("cuda-error-words"):
        words = (hit.groups.get(name) for name in ("string", "string2", "name", "code"))
        rows = (case.table.cuda_error(text) for text in words if text)
        row = next((row for row in rows if row is not None), None)
        if row is None or row.name in {"cudaErrorMemoryAllocation", "cudaErrorDevicesUnavailable"}:
            continue
        note = f": {row.note}" if row.note else ""
        yield suspect("cuda-runtime-error", code=row.code, name=row.name, note=note)
        return


def suspect_exception(case: Case) -> Iterator[Suspect]:
    """A Python exception that no rule knows, or nothing at all."""
    own = own_exceptions(case)
    if own:
        yield suspect("python-exception", text=f"{own[-1].text[:160]!r}")
    elif case.exit_code not in {0, None} and last_trouble(case) is None:
        yield suspect("no-evidence", exit_code=case.exit_code)


_NCCL = ("nccl-frame", "nccl-words", "nccl-error-in", "nccl-watchdog", "nccl-collective-trace")


def suspect_bugs(case: Case) -> Iterator[Finding]:
    """Known bugs whose crash this is, where GPU or versions are not known."""
    for bug in case.matrix.causes.native_bugs:
        hits = shown_by(bug, case)
        if hits is not None and bug_holds(bug, known_values(case.facts)) is None:
            yield bug_finding(bug, case, hits, Status.UNKNOWN)


def suspect_ends(case: Case) -> Iterator[Suspect]:
    """Hypotheses about hangs, and about who asked it to stop, unless the run went on."""
    hang = case.log.first("hang-words")
    if hang is not None and case.signal is None and not went_on(case, hang):
        yield from _hang(case)
    asked = case.log.last("sigterm-words")
    if asked is None or case.signal is not None or went_on(case, asked):
        return
    if not own_exceptions(case):
        yield suspect("sigterm-from-supervisor")


def _hang(case: Case) -> Iterator[Suspect]:
    if not case.log.has(*_NCCL):
        return
    if not case.log.has("nccl-transport-named"):  # else it was tried, and was no cure
        yield suspect("nccl-intra-node-transport.hang")
    yield suspect("nccl-watchdog-abort")


def suspect_trouble(case: Case) -> Iterator[Suspect]:
    """An error that no rule knows, where nothing better is suspected."""
    hit = last_trouble(case)
    if hit is None or case.signal is not None:
        return
    yield suspect("unknown-error", text=f"{hit.text[:160]!r}", lines=(hit.id,))


_BY_SIGNAL: dict[int, Callable[[Case], Iterator[Suspect]]] = {
    SIGKILL: suspect_kill,
    SIGSEGV: suspect_segfault,
    SIGBUS: suspect_bus,
}


def _of_ending(case: Case) -> Iterator[Suspect]:
    """What the signal leaves open, or the exception where it died of none that is known."""
    by_signal = _BY_SIGNAL.get(case.signal or 0)
    if by_signal is not None:
        yield from by_signal(case)
    elif case.signal not in {SIGABRT, SIGILL, SIGFPE, SIGTERM}:  # rows speak of these
        yield from suspect_exception(case)


def suspect_causes(case: Case) -> Iterator[Finding]:
    """The hypotheses for a case without an established cause, the likeliest first.

    Their rows state their ranks: what words say comes before what the signal leaves open, and an
    exception that nothing explains comes last.

    Returns:
        Findings of status unknown; nothing when nothing went wrong.
    """
    seen: set[str] = set()
    for finding in suspect_bugs(case):
        seen.add(finding.cause)
        yield finding
    raised = [
        *suspect_breaks(case),
        *suspect_ends(case),
        *suspect_words(case),
        *_of_ending(case),
        *suspects_told(case),
    ]
    for one in sorted(raised, key=lambda one: one.row(case).rank):
        cause = one.said(case).cause
        if cause not in seen:
            seen.add(cause)
            yield suspect_finding(case, one)
    if not seen:
        yield from (suspect_finding(case, last) for last in suspect_trouble(case))
