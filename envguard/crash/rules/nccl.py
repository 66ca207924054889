"""NCCL: time-outs, transports, mixed versions, and peers that died first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.cause_findings import make_finding
from envguard.crash.phases import Phase
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case


_STANDSTILL = (
    "nccl-watchdog",
    "nccl-frame",
    "nccl-error-in",
    "nccl-cuda-failure",
    "hang-words",
    "illegal-access",
    "launch-failure",
)


def check_transport(case: Case) -> Iterator[Finding]:
    """A crash or hang that ends when NCCL's transport between the GPUs is left out.

    That it passes with gloo leaves out NCCL as a whole, and is a reason to suspect it only.
    """
    hits = case.matches("nccl-transport-cure")
    if hits and (case.signal is not None or case.log.has(*_STANDSTILL)):
        yield make_finding(
            case, "nccl-intra-node-transport", Status.FAIL, (*hits, *case.matches("nccl-frame"))
        )


def check_watchdog(case: Case) -> Iterator[Finding]:
    """A collective that timed out: the waiting ranks are not the cause."""
    hits = case.matches("nccl-watchdog", "nccl-takedown", "nccl-watchdog-frame")
    if not hits:
        return
    why = ""
    if case.phase is Phase.SAVE:
        why = "The ranks waited for a save: rank 0 takes longer to write than the timeout."
    yield make_finding(case, "nccl-watchdog-abort", Status.FAIL, hits, detail=why)
