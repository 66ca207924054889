"""Hypotheses where the evidence does not carry a cause: ranked, each with one experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.exits import SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGTERM
from envguard.crash.rules.known_breaks import suspect_breaks
from envguard.crash.suspects_of_ends import suspect_bugs, suspect_ends, suspect_trouble
from envguard.crash.suspects_of_packages import suspect_extensions
from envguard.crash.suspects_of_signals import (
    suspect_abort,
    suspect_bus,
    suspect_illegal,
    suspect_kill,
    suspect_segfault,
    suspect_term,
)
from envguard.crash.suspects_of_words import suspect_exception, suspect_words
from envguard.crash.suspicion import Suspect, suspect_finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from envguard.crash.case import Case
    from envguard.facts.findings import Finding

_BY_SIGNAL: dict[int, Callable[[Case], Iterator[Suspect]]] = {
    SIGKILL: suspect_kill,
    SIGSEGV: suspect_segfault,
    SIGBUS: suspect_bus,
    SIGABRT: suspect_abort,
    SIGILL: suspect_illegal,
    SIGFPE: suspect_illegal,
    SIGTERM: suspect_term,
}


def suspect_causes(case: Case) -> Iterator[Finding]:
    """The hypotheses for a case without an established cause, the likeliest first.

    What words say comes before what the signal leaves open, and an exception that nothing
    explains comes last.

    Returns:
        Findings of status unknown; nothing when nothing went wrong.
    """
    seen: set[str] = set()
    of_signal = _BY_SIGNAL.get(case.signal or 0, suspect_exception)
    for finding in suspect_bugs(case):
        seen.add(finding.cause)
        yield finding
    for raised in (
        *suspect_breaks(case),
        *suspect_ends(case),
        *suspect_words(case),
        *suspect_extensions(case),
        *of_signal(case),
    ):
        cause = raised.said(case).cause
        if cause not in seen:
            seen.add(cause)
            yield suspect_finding(case, raised)
    if not seen:
        yield from (suspect_finding(case, last) for last in suspect_trouble(case))
