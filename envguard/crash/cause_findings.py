"""What rules share: findings from the rows of causes, with the lines of the log as evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, replace
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from envguard.crash.case import worked_after
from envguard.crash.tried import add_against, spoken_against, untried
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.sentences import fill, join_sentences, say
from envguard.matrix.causes import Hypothesis, Message, Where
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from envguard.crash.case import Case
    from envguard.facts.findings import Source
    from envguard.matrix.causes import ShownBy
    from envguard.signatures import SignatureMatch


_SHOWN_HITS = 6


def check_shown(case: Case) -> Iterator[Finding]:
    """The findings of all causes that words of the log establish by themselves."""
    for cause in case.matrix.causes.causes:
        for shown in cause.shown:
            if shown.holds_in(Where.LOG) and shown.is_met(case.log.matches):
                yield _shown_finding(shown, case)


def _stand_in(row: ShownBy | Hypothesis, case: Case) -> bool:
    """Whether the log holds the signatures that a row asks for, and none that it forbids."""
    has_any = not row.any or case.log.has(*row.any)
    has_also = not row.all or case.log.has(*row.all)
    return has_any and has_also and not case.log.has(*row.unless)


def _shown_finding(shown: ShownBy, case: Case) -> Finding:
    hits = case.matches(*shown.any)
    is_over = shown.survivable and worked_after(case, hits[-1])
    status = Status.WARN if is_over else shown.status
    return make_finding(case, shown.says, status, (*hits, *case.matches(*shown.all)))


def make_finding(
    case: Case,
    says: str | Message,
    status: Status,
    hits: Iterable[SignatureMatch] = (),
    *,
    more: tuple[Evidence, ...] = (),
    detail: str = "",
) -> Finding:
    """A finding with lines of the log as evidence.

    Args:
        case: For the name of the log and the sources of its signatures.
        says: The name of a message of the tables, or a message.
        status: How it counts.
        hits: The lines.
        more: Evidence that is no line of the log.
        detail: Joined to what the message says.
    """
    lines = tuple(hits)
    groups = _groups(lines)
    message = case.matrix.causes.message(says) if isinstance(says, str) else says
    said = fill(message.detail, groups)
    return Finding(
        code=message.code,
        cause=message.cause,
        status=status,
        title=fill(message.title, groups),
        detail=join_sentences(said, detail),
        evidence=(*line_evidence(case, lines), *more),
        remedy=_remedy(message, groups, case),
        source=_source(case, lines),
        line=lines[0].line if lines else None,
    )


def _remedy(message: Message, groups: Mapping[str, object], case: Case) -> Remedy | None:
    if not message.remedy:
        return None
    return Remedy(fill(message.remedy, groups), _whole(message.command, case))


def _groups(hits: Iterable[SignatureMatch]) -> dict[str, object]:
    """What signatures named; where several did, what the first one did."""
    return {k: v for hit in reversed(tuple(hits)) for k, v in hit.groups.items()}


def version_or_none(text: str) -> Version | None:
    """A version as a log writes it; None where it is none."""
    try:
        return Version(text)
    except ValueError:  # InvalidVersion, or more digits than Python reads
        return None


def line_evidence(case: Case, hits: Iterable[SignatureMatch]) -> tuple[Evidence, ...]:
    """Lines of the log as evidence, each once, in their order."""
    by_line = {hit.order: hit for hit in hits}
    return tuple(
        Evidence(hit.place, hit.text, case.log.name)
        for _, hit in sorted(by_line.items())[:_SHOWN_HITS]
    )


def _source(case: Case, hits: tuple[SignatureMatch, ...]) -> Source | None:
    for hit in hits:
        if not hit.id.startswith("phase:"):
            return case.matrix.causes.signature(hit.id).provenance.source
    return None


_TEMPLATES = ("supports", "against", "experiment")
_FIELDS = frozenset(entry.name for entry in fields(Hypothesis)) - {"id", "says"}


@dataclass(frozen=True, slots=True)
class RaisedHypothesis:
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
        given: dict[str, Any] = {
            name: value for name, value in self.values.items() if name in _FIELDS
        }
        texts = {name: fill(getattr(row, name), self.values) for name in _TEMPLATES}
        return replace(row, **{**texts, **given})

    def message_row(self, case: Case) -> Message:
        """The message of its cause."""
        return self.message or case.matrix.causes.message(self.row(case).says)


def raise_hypothesis(hypothesis: str, **values: object) -> RaisedHypothesis:
    """The hypothesis of a row of the tables.

    Args:
        hypothesis: The row's name.
        values: Values of its templates, or whole fields.
    """
    return RaisedHypothesis(hypothesis, values)


def hypotheses_shown(case: Case) -> Iterator[RaisedHypothesis]:
    """The hypotheses whose rows say when they are raised, where all of it holds."""
    died_of = case.table.signal(case.signal) if case.signal is not None else None
    name = died_of.name if died_of is not None else ""
    doing = case.phase.value if case.phase is not None else "unknown"
    for cause in case.matrix.causes.causes:
        for row in cause.hypotheses:
            fits = not row.signal or name in row.signal
            fits = fits and (not row.phase or doing in row.phase)
            if row.is_told and fits and _stand_in(row, case) and not _is_over(row, case):
                yield RaisedHypothesis(row, _groups(case.matches(*row.any)))


def _is_over(row: Hypothesis, case: Case) -> bool:
    """Whether the program worked on after words that it can survive."""
    last = case.log.last(*row.any) if row.survivable else None
    return last is not None and worked_after(case, last)


def _what_decides(cause: str, case: Case) -> str:
    row = case.matrix.causes.cause(cause)
    return (
        say("What decides: {what}.", what=row.decided_by)
        if row is not None and row.decided_by
        else ""
    )


def _whole(command: tuple[str, ...], case: Case) -> tuple[str, ...]:
    """A command that goes before another, with the other: the run's own where it is known."""
    if command[:1] == ("env",) or command[-1:] in {("--",), ("--args",)}:
        return (*command, *(case.command or ("CMD",)))
    return command


def hypothesis_finding(case: Case, raised: RaisedHypothesis) -> Finding:
    """The finding of a hypothesis; its remedy is the experiment."""
    row, message = raised.row(case), raised.message_row(case)
    said = say("For it: {supports}.", supports=row.supports)
    experiment = Remedy(row.experiment, row.command)
    against = add_against(row.against, spoken_against(case, experiment))
    if against:
        said = join_sentences(said, say("Against it: {against}.", against=against))
    said = join_sentences(said, _what_decides(message.cause, case))
    hits = case.matches(*row.lines)
    found = make_finding(case, message, Status.UNKNOWN, hits, detail=said)
    left = untried(case, experiment)
    remedy = Remedy(
        say("to find out, {experiment}", experiment=left.text), _whole(left.command, case)
    )
    return replace(
        found, title=say("maybe: {cause}", cause=found.title), detail=said, remedy=remedy
    )
