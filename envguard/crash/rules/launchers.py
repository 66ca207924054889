"""Schedulers, launchers, terminals and daemons that end a run on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.case import own_exceptions, went_on
from envguard.crash.cause_findings import make_finding
from envguard.crash.exits import SIGHUP, SIGINT, SIGKILL, SIGTERM
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.signatures import SignatureMatch


def check_asked_to_stop(case: Case) -> Iterator[Finding]:
    """The launcher itself was asked to stop, by a closed terminal, Ctrl-C or a supervisor."""
    hit = case.log.first("torchrun-got-signal")
    number = hit.number("n") if hit is not None else None
    if number is None and case.log.has("sighup-words"):
        hit, number = case.log.first("sighup-words"), SIGHUP
    if number is None and case.signal in {SIGHUP, SIGINT}:
        number = case.signal
    if number is None and case.log.has("keyboard-interrupt"):
        hit, number = case.log.first("keyboard-interrupt"), SIGINT
    outcome = {
        SIGHUP: "sighup-terminal-closed",
        SIGINT: "interrupted",
        SIGTERM: "sigterm-from-supervisor",
    }.get(number or 0)
    if outcome is None or (outcome == "interrupted" and _died_otherwise(case)):
        return
    hits = (hit,) if hit is not None else ()
    yield make_finding(case, outcome, Status.FAIL, hits)


def _died_otherwise(case: Case) -> bool:
    return case.signal is not None and case.signal != SIGINT


def check_forced_kill(case: Case) -> Iterator[Finding]:
    """The launcher's own SIGKILL after a SIGTERM that was not heeded."""
    hit = case.log.first("torchrun-sigkill-after-term")
    if hit is None or case.signal not in {SIGKILL, None}:
        return
    process_exit = case.root_exit
    if (
        process_exit is not None
        and process_exit.pid is not None
        and process_exit.pid != hit.number("pid")
    ):
        return
    yield make_finding(case, "launcher-sigkill-after-sigterm", Status.FAIL, (hit,))


def check_store_barrier(case: Case) -> Iterator[Finding]:
    """The count of ranks that came to the store: fewer than the job has, or more."""
    hit = case.log.last("store-barrier")
    joined, wanted = (hit.number("joined"), hit.number("wanted")) if hit else (None, None)
    if hit is None or joined is None or wanted is None or joined == wanted:
        return
    slug = "node-never-joined" if joined < wanted else "nccl-duplicate-rank"
    yield make_finding(case, slug, Status.FAIL, (hit,))


_BY_ORDER = ("slurm-cancel", "batch-owner-kill", "container-stop")
_SAID_WHY = ("time-limit-words", "preempt-words", "slurm-time", "slurm-preempt", "slurm-signal")
_FAILED_FIRST = ("nccl-watchdog", "nccl-error-in", "cuda-oom", "cuda-error-words")


def check_stopped(case: Case) -> Iterator[Finding]:
    """The run was stopped by its supervisor, and nothing failed before that."""
    hit = case.log.first(*_BY_ORDER)
    if hit is not None and case.signal in {None, SIGTERM, SIGKILL}:
        if not case.log.has(*_SAID_WHY) and not _failed_before(case, hit):
            yield make_finding(case, "sigterm-from-supervisor.cancelled", Status.FAIL, (hit,))
        return
    hit = case.log.first("launcher-death-signal")
    if hit is None or hit.number("n") not in {None, SIGTERM} or case.log.has(*_SAID_WHY):
        return
    is_asked = hit.groups.get("name", "SIGTERM") == "SIGTERM"
    if is_asked and case.signal in {None, SIGTERM} and not _failed_before(case, hit):
        yield make_finding(case, "sigterm-from-supervisor", Status.FAIL, (hit,))


def _failed_before(case: Case, hit: SignatureMatch) -> bool:
    """Whether the stop follows a failure of the run itself, or the run outlived it."""
    earlier = [*own_exceptions(case), *case.matches(*_FAILED_FIRST)]
    return went_on(case, hit) or any(other.order < hit.order for other in earlier)
