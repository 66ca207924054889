"""Combinations that are known to break, told by the words that they leave in a log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.checks.breaks import break_finding, condition_values, contradicts
from envguard.crash.rules.model import line_evidence
from envguard.crash.suspicion import Suspect
from envguard.facts.findings import Finding, Status
from envguard.matrix.causes import Hypothesis, Message, Proof

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.matrix.breaks import Break


def check_known_breaks(case: Case) -> Iterator[Finding]:
    """Breaks whose words are in the log and whose versions, as far as known, agree.

    Words that others print too establish a break only where the version of the package that it
    is about is known.
    """
    for row, is_proved in _shown_breaks(case):
        if is_proved:
            yield _finding(case, row)


def suspect_breaks(case: Case) -> Iterator[Suspect]:
    """Breaks whose words are in the log, where versions that would settle it are not known."""
    for row, is_proved in _shown_breaks(case):
        if is_proved:
            continue
        found = _finding(case, row)
        names = ", ".join(name for name in row.when if name not in condition_values(case.facts))
        cure = found.remedy.text if found.remedy else "take other versions"
        raised = Hypothesis(
            id=row.name,
            says="",
            speaks="the log shows its words",
            against=f"not known here: the version of {names}",
            experiment=f"compare the versions; if they are those of the break, {cure}",
            command=found.remedy.command if found.remedy else (),
            lines=(*row.shows, *row.frames),
        )
        message = Message(row.name, row.cause, found.code, found.title, row.text, cure)
        yield Suspect(raised, message=message)


def _shown_breaks(case: Case) -> Iterator[tuple[Break, bool]]:
    """Breaks that the log shows and nothing known rules out, and whether they are proved."""
    versions = condition_values(case.facts)
    for row in case.matrix.breaks.shown_in(case.log.hits.keys()):
        if contradicts(row, versions, case.facts):
            continue
        words = [case.matrix.causes.signature(name) for name in row.shows if case.log.has(name)]
        is_certain = any(word.proves is Proof.CERTAIN for word in words)
        yield row, is_certain or next(iter(row.when), "") in versions


def _finding(case: Case, row: Break) -> Finding:
    hits = case.hits(*row.shows, *row.frames)
    found = break_finding(row, condition_values(case.facts), case.facts, Status.FAIL)
    evidence = (*found.evidence, *line_evidence(case, hits))
    # What it takes, where it takes something, was used: it happened.
    return replace(found, detail=row.text, evidence=evidence, line=hits[0].line if hits else None)
