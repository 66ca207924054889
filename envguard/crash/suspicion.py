"""Hypotheses: causes that may be it, what speaks for and against, and how to find out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from envguard.crash.rules.model import make_finding
from envguard.facts.findings import Finding, Remedy, Status
from envguard.matrix.causes import Hypothesis, Message

if TYPE_CHECKING:
    from envguard.crash.case import Case

_FIELDS = frozenset(entry.name for entry in fields(Hypothesis)) - {"id", "says"}


@dataclass(frozen=True, slots=True)
class Suspect:
    """A hypothesis that a rule raises, with what the rule knows.

    Args:
        hypothesis: The name of the row, or a hypothesis of which no row can know.
        values: Values of its templates; a field's own name takes the place of that field.
        message: What is said where no row says it; None for the row's message.
    """

    hypothesis: str | Hypothesis
    values: Mapping[str, object] = field(default_factory=dict)
    message: Message | None = None

    def row(self, case: Case) -> Hypothesis:
        """The hypothesis with its templates filled in."""
        found = self.hypothesis
        row = case.matrix.causes.hypothesis(found) if isinstance(found, str) else found
        given = {name: value for name, value in self.values.items() if name in _FIELDS}
        texts = {
            name: getattr(row, name).format_map(self.values)
            for name in ("speaks", "against", "experiment")
            if "{" in getattr(row, name)
        }
        return replace(row, **{**texts, **given})

    def said(self, case: Case) -> Message:
        """The message of its cause."""
        return self.message or case.matrix.causes.message(self.row(case).says)


def suspect(hypothesis: str, **values: object) -> Suspect:
    """The hypothesis of a row of the tables.

    Args:
        hypothesis: The row's name.
        values: Values of its templates, or whole fields.
    """
    return Suspect(hypothesis, values)


def _what_decides(cause: str, case: Case) -> str:
    row = case.matrix.causes.cause(cause)
    return f" What decides: {row.decided_by}." if row is not None and row.decided_by else ""


def _whole(command: tuple[str, ...], case: Case) -> tuple[str, ...]:
    """A command that goes before another, with the other: the run's own where it is known."""
    if command[:1] == ("env",) or command[-1:] == ("--",):
        return (*command, *(case.command or ("CMD",)))
    return command


def suspect_finding(case: Case, raised: Suspect) -> Finding:
    """The finding of a hypothesis; its remedy is the experiment."""
    row, message = raised.row(case), raised.said(case)
    said = f"For it: {row.speaks}."
    if row.against:
        said += f" Against it: {row.against}."
    said += _what_decides(message.cause, case)
    hits = case.hits(*row.lines)
    found = make_finding(case, message, Status.UNKNOWN, hits, detail=said)
    remedy = Remedy(f"to find out, {row.experiment}", _whole(row.command, case))
    return replace(found, title=f"maybe: {found.title}", detail=said, remedy=remedy)
