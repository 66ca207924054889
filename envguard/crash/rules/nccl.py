"""NCCL: time-outs, transports, mixed versions, and peers that died first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.findings import make_finding
from envguard.crash.phases import Phase
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case


def check_watchdog(case: Case) -> Iterator[Finding]:
    """A collective that timed out: the waiting ranks are not the cause."""
    hits = case.hits("nccl-watchdog", "nccl-takedown", "nccl-watchdog-frame")
    if not hits:
        return
    why = ""
    if case.phase is Phase.SAVE:
        why = "The ranks waited for a save: rank 0 takes longer to write than the timeout."
    yield make_finding(case, "nccl-watchdog-abort", Status.FAIL, hits, detail=why)
