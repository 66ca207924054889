"""What rules share: findings with the lines of the log as evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.crash.trouble import worked_after
from envguard.facts.findings import Evidence, Finding, Remedy, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from envguard.crash.case import Case
    from envguard.crash.log import Hit
    from envguard.facts.source import Source

_SHOWN_HITS = 6


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rule says when it applies; the same text explains the code.

    Args:
        code: ``CRS###``; never reused.
        cause: The cause.
        title: One line; ``{name}`` takes what the pattern named.
        detail: What it means, likewise.
        remedy: What to do first, likewise.
        command: A command that does it.
    """

    code: str
    cause: str
    title: str
    detail: str
    remedy: str
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WordRule:
    """Words that prove a cause by themselves.

    Args:
        outcome: What is said.
        ids: Signatures of which one has to be there.
        needs: Signatures of which one has to be there as well; empty needs none.
        unless: Signatures that forbid it.
        status: How it counts.
        is_survivable: A program can go on after them; where it did, they are a warning.
    """

    outcome: Outcome
    ids: tuple[str, ...]
    needs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    status: Status = Status.FAIL
    is_survivable: bool = False

    def apply(self, case: Case) -> Iterator[Finding]:
        """The finding, where the words are there."""
        hits = case.hits(*self.ids)
        if not hits or case.log.has(*self.unless):
            return
        also = case.hits(*self.needs)
        if self.needs and not also:
            return
        is_over = self.is_survivable and worked_after(case, hits[-1])
        status = Status.WARN if is_over else self.status
        yield make_finding(case, self.outcome, status, (*hits, *also))


def apply_words(rules: Iterable[WordRule], case: Case) -> Iterator[Finding]:
    """The findings of all word rules that apply."""
    for rule in rules:
        yield from rule.apply(case)


def make_finding(
    case: Case,
    outcome: Outcome,
    status: Status,
    hits: Iterable[Hit] = (),
    *,
    more: tuple[Evidence, ...] = (),
    detail: str = "",
) -> Finding:
    """A finding with lines of the log as evidence.

    Args:
        case: For the name of the log and the sources of its signatures.
        outcome: What is said.
        status: How it counts.
        hits: The lines.
        more: Evidence that is no line of the log.
        detail: Joined to what the outcome says.
    """
    lines = tuple(hits)
    groups = {k: v for hit in reversed(lines) for k, v in hit.groups.items()}
    said = _fill(outcome.detail, groups)
    return Finding(
        code=outcome.code,
        cause=outcome.cause,
        status=status,
        title=_fill(outcome.title, groups),
        detail=f"{said} {detail}".strip(),
        evidence=(*line_evidence(case, lines), *more),
        remedy=Remedy(_fill(outcome.remedy, groups), outcome.command) if outcome.remedy else None,
        source=_source(case, lines),
        line=lines[0].line if lines else None,
    )


def version_or_none(text: str) -> Version | None:
    """A version as a log writes it; None where it is none."""
    try:
        return Version(text)
    except ValueError:  # InvalidVersion, or more digits than Python reads
        return None


def line_evidence(case: Case, hits: Iterable[Hit]) -> tuple[Evidence, ...]:
    """Lines of the log as evidence, each once, in their order."""
    by_line = {hit.order: hit for hit in hits}
    return tuple(
        Evidence(hit.place, hit.text, case.log.name)
        for _, hit in sorted(by_line.items())[:_SHOWN_HITS]
    )


def _source(case: Case, hits: tuple[Hit, ...]) -> Source | None:
    for hit in hits:
        if not hit.id.startswith("phase:"):
            return case.table.signature(hit.id).provenance.source
    return None


class _Blank(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "?"


def _fill(text: str, groups: dict[str, str]) -> str:
    return text.format_map(_Blank(groups)) if "{" in text else text
