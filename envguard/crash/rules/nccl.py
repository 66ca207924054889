"""NCCL: time-outs, transports, mixed versions, and peers that died first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.case import went_on, worked_after
from envguard.crash.cause_findings import make_finding, raise_hypothesis
from envguard.crash.phases import Phase
from envguard.facts.findings import Finding, Status
from envguard.matrix.statuses import NCCL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.crash.cause_findings import RaisedHypothesis
    from envguard.matrix.statuses import StatusRow

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


def hypotheses_of_nccl(case: Case) -> Iterator[RaisedHypothesis]:
    """What NCCL returned and what it warned of, where no row knows more about the words."""
    row = _result(case)
    if row is not None:
        yield raise_hypothesis("nccl-error", name=row.name, note=row.meaning)
    yield from _cuda_inside(case)
    yield from _warned(case)


def _result(case: Case) -> StatusRow | None:
    """The result of an NCCL call that the log tells, by its text or its name."""
    for hit in case.log.all("nccl-error-in", "nccl-result-name"):
        words = (hit.groups.get(name) for name in ("err", "err2", "name"))
        rows = (case.matrix.statuses.nccl(text) for text in words if text)
        row = next((row for row in rows if row is not None), None)
        if row is not None:
            return row
    return None


def _cuda_inside(case: Case) -> Iterator[RaisedHypothesis]:
    """The CUDA error of a call that NCCL made: the first one, which the others follow."""
    hit = case.log.first("nccl-cuda-words")
    if hit is None:
        return
    row = case.matrix.statuses.told(hit.groups["string"])
    if row is not None and row.name != "cudaErrorMemoryAllocation":
        yield raise_hypothesis("nccl-error.cuda", name=row.name, note=f": {row.meaning}")


def _warned(case: Case) -> Iterator[RaisedHypothesis]:
    """NCCL's warnings and error returns, unless the program trained or ended well after them."""
    hit = case.log.first("nccl-warn", "nccl-error-return")
    if hit is None or worked_after(case, hit) or went_on(case, hit):
        return
    row = case.matrix.statuses.status(NCCL, hit.number("result") or 0)
    warn = hit.groups.get("warn") or (row.name if row is not None else hit.text)
    yield raise_hypothesis("nccl-error.warn", warn=f"{warn[:160]!r}")
