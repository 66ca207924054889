"""Bugs of releases that end processes by a signal: the rows of the table that fit the crash."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.checks.breaks import condition_values
from envguard.crash.rules.model import line_evidence
from envguard.facts.findings import Evidence, Finding, Remedy, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.crash.log import Hit
    from envguard.matrix.causes import NativeBug


def check_known_bugs(case: Case) -> Iterator[Finding]:
    """Every row whose signal, words, GPU and versions all are those of the crash."""
    for bug in case.matrix.causes.native_bugs:
        hits = shown_by(bug, case)
        if hits is not None and fits(bug, case) is True:
            yield bug_finding(bug, case, hits, Status.FAIL)


def shown_by(bug: NativeBug, case: Case) -> tuple[Hit, ...] | None:
    """The lines that show a bug; None when the crash is another."""
    if case.signal != bug.signal:
        return None
    hits = case.hits(bug.signature) if bug.signature else ()
    if bug.signature and not hits:
        return None
    death = case.death.hit if case.death is not None else None
    return (*hits, death) if death is not None else hits


def fits(bug: NativeBug, case: Case) -> bool | None:
    """Whether GPU and versions are those of a bug; None when something is not known."""
    versions = condition_values(case.facts)
    known = [
        bound.contains(versions[name].public, prereleases=True) if name in versions else None
        for name, bound in bug.when.items()
    ]
    if bug.gpus:
        names = [gpu.name for gpu in case.facts.machine.gpus or () if gpu.name]
        words = {word for name in names for word in name.split()}
        known.append(bool(words & set(bug.gpus)) if names else None)
    if False in known:
        return False
    return None if None in known else True


def bug_finding(bug: NativeBug, case: Case, hits: tuple[Hit, ...], status: Status) -> Finding:
    """The finding of a row, with its own words."""
    is_of_vendor = bug.cause == "vendor-lib-bug"
    message = case.matrix.causes.message(
        "vendor-lib-bug.vendor" if is_of_vendor else "torch-release-bug"
    )
    versions = condition_values(case.facts)
    stated = tuple(
        Evidence(name, str(versions[name]), "the subject") for name in bug.when if name in versions
    )
    finding = Finding(
        code=message.code,
        cause=message.cause,
        status=status,
        title=bug.title,
        detail=bug.text,
        evidence=(*line_evidence(case, hits), *stated),
        remedy=Remedy(bug.fix, bug.command),
        source=bug.provenance.source,
        line=hits[0].line if hits else None,
    )
    return finding if status is Status.FAIL else replace(finding, title=f"maybe: {bug.title}")
