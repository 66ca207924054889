"""Schedulers, launchers, terminals and daemons that end a run on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.exits import SIGHUP, SIGINT, SIGKILL, SIGTERM
from envguard.crash.rules.model import make_finding
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case


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
    death = case.death
    if death is not None and death.pid is not None and death.pid != hit.number("pid"):
        return
    yield make_finding(case, "launcher-sigkill-after-sigterm", Status.FAIL, (hit,))
