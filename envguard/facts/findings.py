"""Findings, verdicts and their sources: the answer of every command that judges."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING

from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Source:
    """Where a statement can be read, and when it was.

    Args:
        url: Address, or a short name of the artifact that was read.
        checked: ISO date.
    """

    url: str
    checked: str


class Status(Enum):
    """What one finding says; SKIP (not applicable) does not count towards the verdict."""

    FAIL = "fail"
    UNKNOWN = "unknown"
    WARN = "warn"
    OK = "ok"
    SKIP = "skip"


_RANK = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.OK)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact that a finding rests on.

    Args:
        fact: Dotted name, e.g. ``gpu[0].capability``.
        value: As text.
        origin: Who said so: a probe, a file, ``matrix``.
    """

    fact: str
    value: str
    origin: str = field(metadata={"key": "from"})


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do about a finding.

    Args:
        text: For a person.
        command: Argument list that does it; empty when no single command does.
    """

    text: str
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Args:
        code: ``FAM###``; never reused.
        cause: Slug of the cause (design section 8); never changes meaning.
        status: How it counts.
        title: One line.
        detail: What it means here, in a few sentences.
        gpus: NVML indices that it is about; empty when it is about no GPU in particular.
        package: Normalised name of the distribution it is about.
        evidence: The facts it rests on.
        remedy: What to do; None when there is nothing to do.
        source: Where the rule can be read.
        line: Line of the subject document, for reports that point at files.
    """

    code: str
    cause: str
    status: Status
    title: str
    detail: str = ""
    gpus: tuple[int, ...] = ()
    package: str | None = None
    evidence: tuple[Evidence, ...] = ()
    remedy: Remedy | None = None
    source: Source | None = None
    line: int | None = None


def verdict_of(findings: Iterable[Finding]) -> Status:
    """The worst of FAIL > UNKNOWN > WARN > OK; SKIP does not count; nothing at all is OK."""
    return worst_of(finding.status for finding in findings)


def worst_of(statuses: Iterable[Status]) -> Status:
    """The worst of some statuses or verdicts, likewise."""
    present = set(statuses)
    return next((status for status in _RANK if status in present), Status.OK)


def root_cause_of(findings: Iterable[Finding], order: tuple[str, ...]) -> str | None:
    """The cause of the finding that explains the others.

    Only findings whose status equals the verdict compete; a cause that stands earlier in the
    order wins, causes outside the order come last in the order found.

    Args:
        findings: All findings.
        order: Causes, the most fundamental first.

    Returns:
        The cause; None when the verdict is ok or unknown.
    """
    found = list(findings)
    verdict = verdict_of(found)
    if verdict in {Status.OK, Status.UNKNOWN}:
        return None
    rank = {cause: position for position, cause in enumerate(order)}
    competing = [finding for finding in found if finding.status is verdict]
    return min(competing, key=lambda f: rank.get(f.cause, len(order))).cause
