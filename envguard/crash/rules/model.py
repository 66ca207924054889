"""What rules share: findings with the lines of the log as evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.crash.trouble import worked_after
from envguard.facts.findings import Evidence, Finding, Remedy, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from envguard.crash.case import Case
    from envguard.crash.log import Hit
    from envguard.facts.source import Source
    from envguard.matrix.causes import Message, ShownBy

_SHOWN_HITS = 6


def check_shown(case: Case) -> Iterator[Finding]:
    """The findings of all causes that words of the log establish by themselves."""
    for cause in case.matrix.causes.causes:
        for shown in cause.shown:
            yield from _apply(shown, case)


def _apply(shown: ShownBy, case: Case) -> Iterator[Finding]:
    hits = case.hits(*shown.any)
    if not hits or case.log.has(*shown.unless):
        return
    also = case.hits(*shown.all)
    if shown.all and not also:
        return
    is_over = shown.survivable and worked_after(case, hits[-1])
    status = Status.WARN if is_over else shown.status
    yield make_finding(case, shown.says, status, (*hits, *also))


def make_finding(
    case: Case,
    says: str | Message,
    status: Status,
    hits: Iterable[Hit] = (),
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
    groups = {k: v for hit in reversed(lines) for k, v in hit.groups.items()}
    message = case.matrix.causes.message(says) if isinstance(says, str) else says
    said = _fill(message.detail, groups)
    return Finding(
        code=message.code,
        cause=message.cause,
        status=status,
        title=_fill(message.title, groups),
        detail=f"{said} {detail}".strip(),
        evidence=(*line_evidence(case, lines), *more),
        remedy=Remedy(_fill(message.remedy, groups), message.command) if message.remedy else None,
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
            return case.matrix.causes.signature(hit.id).provenance.source
    return None


class _Blank(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "?"


def _fill(text: str, groups: dict[str, str]) -> str:
    return text.format_map(_Blank(groups)) if "{" in text else text
