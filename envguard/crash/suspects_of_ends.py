"""What is left to suspect of hangs, lost workers and files, and errors without a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.rules import host_memory as host
from envguard.crash.rules import shared_memory as shm
from envguard.crash.rules.known_bugs import bug_finding, fits, shown_by
from envguard.crash.rules.launchers import SUPERVISOR
from envguard.crash.rules.model import Outcome
from envguard.crash.rules.nccl import TRANSPORT, WATCHDOG
from envguard.crash.rules.program import LAYOUT
from envguard.crash.suspicion import Suspicion
from envguard.crash.trouble import last_trouble, own_exceptions, went_on
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

ERROR = Outcome(
    "CRS133",
    "unknown-error",
    "the log tells of an error, and envguard knows no cause for it",
    "No rule speaks of these words.",
    "read the lines before it",
)
SHARDS = Outcome(
    "CRS134",
    "checkpoint-incomplete",
    "shards of the checkpoint are not where this node looks for them",
    "Each rank writes its own shards; on nodes without a common folder each has only its own.",
    "bring all shards into one folder that every node sees",
)
REMOVED = Outcome(
    "CRS135",
    "shm-removed-by-other",
    "another process removed the shared memory",
    "A clean-up of /dev/shm, or a process that ended and took its files along.",
    "look who removes files in /dev/shm while the run lives",
)
_NCCL = ("nccl-frame", "nccl-words", "nccl-error-in", "nccl-watchdog", "nccl-collective-trace")


def suspect_bugs(case: Case) -> Iterator[Finding]:
    """Known bugs whose crash this is, where GPU or versions are not known."""
    for bug in case.table.native_bugs:
        hits = shown_by(bug, case)
        if hits is not None and fits(bug, case) is None:
            yield bug_finding(bug, case, hits, Status.UNKNOWN)


def suspect_ends(case: Case) -> Iterator[Suspicion]:
    """Hypotheses about hangs, and about workers and files that are gone."""
    hang = case.log.first("hang-words")
    if hang is not None and case.signal is None and not went_on(case, hang):
        yield from _hang(case)
    asked = case.log.last("sigterm-words")
    if asked is not None and case.signal is None and not went_on(case, asked):
        yield from _asked(case)
    if case.log.has("nccl-transport-words") and not case.log.has("nccl-transport-cure"):
        yield from _without_nccl()
    if case.log.has("worker-vanished"):
        yield from _lost_worker()
    if case.log.has("shm-vanished"):
        yield from _lost_memory()
    if case.log.has("zero-shard-missing"):
        yield from _lost_shards()


def _without_nccl() -> Iterator[Suspicion]:
    yield Suspicion(
        TRANSPORT,
        "it passes with gloo, so NCCL has part in it",
        "NCCL's release, or its library from elsewhere, may be what matters",
        "run again with NCCL_P2P_DISABLE=1 and nothing else changed, then with NCCL_DEBUG=INFO",
        ("env", "NCCL_P2P_DISABLE=1"),
        ("nccl-transport-words",),
    )


def _hang(case: Case) -> Iterator[Suspicion]:
    words = ("hang-words",)
    if not case.log.has(*_NCCL):
        return
    if not case.log.has("nccl-transport-named"):  # else it was tried, and was no cure
        yield Suspicion(
            TRANSPORT,
            "it stands still in a collective",
            "a rank that never calls the collective looks the same",
            "run again with NCCL_P2P_DISABLE=1 and nothing else changed",
            ("env", "NCCL_P2P_DISABLE=1"),
            (*words, *_NCCL),
        )
    yield Suspicion(
        WATCHDOG,
        "a rank that does not arrive makes the others wait",
        "the watchdog has not spoken yet",
        "run py-spy dump on every rank: the one with another stack is it",
        ids=words,
    )


def _asked(case: Case) -> Iterator[Suspicion]:
    if own_exceptions(case):
        return
    yield Suspicion(
        SUPERVISOR,
        "this process was asked to stop, and the log does not say by whom",
        "a launcher asks every rank to stop when one of them failed",
        "look at the logs of the other ranks and at the batch system's for what came just before",
        ids=("sigterm-words",),
    )


def _lost_worker() -> Iterator[Suspicion]:
    words = ("worker-vanished",)
    yield Suspicion(
        host.EXHAUSTED,
        "a worker that vanishes without an exception was most often killed for memory",
        "its parent does not know the signal",
        "run again with one worker and nothing else changed, and look at `dmesg -T` afterwards: a "
        "line 'Killed process' with its pid decides",
        ids=words,
    )


def _lost_memory() -> Iterator[Suspicion]:
    words = ("shm-vanished",)
    yield Suspicion(
        shm.REMOVED,
        "files that a running process holds were deleted by someone else, and logind does that",
        "whether a login session ended is not known",
        "run `loginctl enable-linger` for this user and the same command again, nothing else "
        "changed: if it lives, that was it",
        ("loginctl", "enable-linger"),
        words,
    )
    yield Suspicion(
        REMOVED,
        "clean-up scripts and dying processes remove such files as well",
        "",
        "watch /dev/shm while it runs: inotifywait -m -e delete /dev/shm",
        ("inotifywait", "-m", "-e", "delete", shm.SHM_FOLDER),
        words,
    )


def _lost_shards() -> Iterator[Suspicion]:
    words = ("zero-shard-missing",)
    yield Suspicion(
        LAYOUT,
        "the loader looks for one shard for each rank of this run",
        "how many ranks wrote the checkpoint, and with which stage, is not known",
        "count the zero_pp_rank_* files: their number is that of the ranks that wrote it; none of "
        "them means stage 0",
        ids=words,
    )
    yield Suspicion(
        SHARDS,
        "on several nodes each keeps its own shards unless they share a folder",
        "",
        "look for the missing file on the other nodes",
        ids=words,
    )


def suspect_trouble(case: Case) -> Iterator[Suspicion]:
    """An error that no rule knows, where nothing better is suspected."""
    hit = last_trouble(case)
    if hit is None or case.signal is not None:
        return
    yield Suspicion(
        ERROR,
        f"the log says {hit.text[:160]!r}",
        "",
        "read the lines before it, and run again under `envguard run`, which keeps the ending, the "
        "phase and the memory",
        ("envguard", "run", "--"),
        (hit.id,),
    )
