"""Words of those who stop a run on purpose: batch systems, container runtimes, other launchers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.exits import SIGKILL, SIGTERM
from envguard.crash.rules.model import make_finding
from envguard.crash.trouble import own_exceptions, went_on
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.crash.log import Hit

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


def _failed_before(case: Case, hit: Hit) -> bool:
    """Whether the stop follows a failure of the run itself, or the run outlived it."""
    earlier = [*own_exceptions(case), *case.hits(*_FAILED_FIRST)]
    return went_on(case, hit) or any(other.order < hit.order for other in earlier)
