"""A suspicion: a cause that may be it, what speaks for and against, and how to find out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envguard.crash.rules.model import Outcome, make_finding
from envguard.facts.findings import Finding, Remedy, Status

if TYPE_CHECKING:
    from envguard.crash.case import Case


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One hypothesis.

    Args:
        outcome: The cause that it may be.
        speaks: What speaks for it.
        against: What speaks against it; empty for nothing.
        experiment: The one thing to change, and what would decide.
        command: The experiment as a command, where it is one.
        ids: Signatures whose lines are shown.
    """

    outcome: Outcome
    speaks: str
    against: str
    experiment: str
    command: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


# Cause -> the row of the table that says which evidence decides.
_DECIDERS = {
    "host-memory-exhausted": "host_oom",
    "container-memory-limit": "container_limit_oom",
    "killed-from-outside": "preemption_or_operator",
    "gpu-oom-states-plus-activations": "gpu_oom",
    "unknown-segfault": "environment_mismatch",
    "sigterm-from-supervisor": "follower",
}


def _what_decides(cause: str, case: Case) -> str:
    wanted = _DECIDERS.get(cause)
    row = next((row for row in case.table.discriminators if row.verdict == wanted), None)
    return f" What decides: {row.decisive}." if row is not None else ""


def _whole(command: tuple[str, ...], case: Case) -> tuple[str, ...]:
    """A command that goes before another, with the other: the run's own where it is known."""
    if command[:1] == ("env",) or command[-1:] == ("--",):
        return (*command, *(case.command or ("CMD",)))
    return command


def suspicion_finding(case: Case, suspicion: Suspicion) -> Finding:
    """The finding of a hypothesis; its remedy is the experiment."""
    said = f"For it: {suspicion.speaks}."
    if suspicion.against:
        said += f" Against it: {suspicion.against}."
    said += _what_decides(suspicion.outcome.cause, case)
    hits = case.hits(*suspicion.ids)
    found = make_finding(case, suspicion.outcome, Status.UNKNOWN, hits, detail=said)
    command = _whole(suspicion.command, case)
    remedy = Remedy(f"to find out, {suspicion.experiment}", command)
    return replace(found, title=f"maybe: {found.title}", detail=said, remedy=remedy)
