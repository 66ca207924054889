"""A diagnosis for a tired person: what died and how sure we are, evidence, what to do first."""

from __future__ import annotations

import shlex
import textwrap
from typing import TYPE_CHECKING, Any

from envguard.facts.findings import Status
from envguard.printable import clean_document, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from envguard.facts.findings import Finding
    from envguard.facts.report import Report
    from envguard.render.page import Style

_COLOURS = {
    Status.FAIL: "red",
    Status.UNKNOWN: "yellow",
    Status.WARN: "yellow",
    Status.OK: "green",
    Status.SKIP: "dim",
}
_SHOWN_TAIL = 5
_LONGEST = 240


def crash_lines(report: Report, style: Style) -> Iterator[str]:
    """The whole report as lines.

    Args:
        report: With the member ``crash``.
        style: How it looks.
    """
    crash: Mapping[str, Any] = clean_document(report.extra["crash"])
    yield from _headline(report, crash, style)
    if style.is_quiet:
        return
    if crash["followers"]:
        count = crash["followers"]
        stopped = f"{count} other process{'es were' if count > 1 else ' was'} stopped after it"
        yield style.paint(f"({stopped}, with SIGTERM: not the cause)", "dim")
    root = next((f for f in report.findings if f.cause == report.root_cause), None)
    if root is not None:
        yield from _established(root, style)
    others = [f for f in report.findings if f is not root]
    yield from _hypotheses([f for f in others if f.status is Status.UNKNOWN], style)
    yield from _also([f for f in others if f.status in {Status.FAIL, Status.WARN}], style)
    if report.recommended is not None:
        yield ""
        yield from _wrap(f"what would fit: {report.recommended.why}", style)
        shown = root.remedy.command if root is not None and root.remedy is not None else ()
        if report.recommended.command != shown:
            yield from _command(report.recommended.command, style)
    if report.verdict is Status.UNKNOWN:
        yield from _next_time(crash, style)
    if report.notes:
        yield ""
    for note in report.notes:
        yield from _wrap(f"note: {note}", style)


def _headline(report: Report, crash: Mapping[str, Any], style: Style) -> Iterator[str]:
    headline = str(crash["headline"])
    said = f"{headline[0].upper()}{headline[1:]}."
    match report.verdict:
        case Status.FAIL:
            root = next((f for f in report.findings if f.cause == report.root_cause), None)
            sure = f"The cause is established: {root.title if root else report.root_cause}."
        case Status.UNKNOWN:
            sure = "The cause is not established; what may be it, the likeliest first:"
        case Status.WARN:
            sure = "Nothing that would end a run was found; there are warnings."
        case _:
            sure = "Nothing wrong was found."
    paint = style.paint(said, "bold")
    yield from (
        style.paint(line, _COLOURS[report.verdict], "bold") if number else paint
        for number, line in enumerate(["", *_wrap(sure, style)])
    )


def _established(finding: Finding, style: Style) -> Iterator[str]:
    yield ""
    yield style.paint(f"{finding.code} {finding.cause}", "bold")
    yield from _wrap(finding.detail, style, "  ")
    yield from _evidence(finding, style)
    if finding.remedy is not None and finding.remedy.text:
        yield "  what to do:"
        yield from _wrap(finding.remedy.text, style, "    ")
        yield from _command(finding.remedy.command, style)


def _evidence(finding: Finding, style: Style) -> Iterator[str]:
    if finding.evidence:
        yield "  evidence:"
    for item in finding.evidence:
        origin = "" if "line " in item.fact else f"  ({item.origin})"
        value = item.value if len(item.value) <= _LONGEST else f"{item.value[:_LONGEST]}..."
        text = f"{item.fact}: {value}{origin}"
        yield from (style.paint(line, "dim") for line in _wrap(text, style, "    ", "      "))


def _hypotheses(findings: list[Finding], style: Style) -> Iterator[str]:
    for number, finding in enumerate(findings, 1):
        yield ""
        title = f"{number}. {finding.title}  ({finding.code} {finding.cause})"
        yield from (style.paint(line, "bold") for line in _wrap(title, style, "", "   "))
        yield from _wrap(finding.detail, style, "   ")
        for item in finding.evidence[:3]:
            text = f"{item.fact}: {item.value}"
            yield from (style.paint(line, "dim") for line in _wrap(text, style, "     ", "       "))
        if finding.remedy is not None:
            yield from _wrap(finding.remedy.text, style, "   ")
            yield from _command(finding.remedy.command, style)


def _also(findings: list[Finding], style: Style) -> Iterator[str]:
    if findings:
        yield ""
        yield style.paint("also:", "bold")
    for finding in findings:
        mark = style.paint(finding.status.value.upper(), _COLOURS[finding.status])
        where = f", line {finding.line}" if finding.line else ""
        text = f"{finding.code} {finding.cause}: {finding.title}{where}"
        first, *rest = _wrap(text, style, " " * 7)
        yield f"  {mark}{first[2 + len(finding.status.value) :]}"
        yield from rest


def _next_time(crash: Mapping[str, Any], style: Style) -> Iterator[str]:
    tail = crash["log"]["tail"]
    if tail:
        yield ""
        yield style.paint("the last lines of the log:", "bold")
    for item in tail[-_SHOWN_TAIL:]:
        text = f"{item['line']:>6}  {item['text']}"
        yield style.paint(text[: style.width], "dim")
    if crash["collect"]:
        yield ""
        yield style.paint("to keep next time:", "bold")
    for wish in crash["collect"]:
        yield from _wrap(f"- {wish}", style, "  ", "    ")


def _command(command: tuple[str, ...], style: Style) -> Iterator[str]:
    if command:
        yield f"      {style.paint('$ ' + printable(shlex.join(command)), 'cyan')}"


def _wrap(text: str, style: Style, first: str = "", rest: str | None = None) -> list[str]:
    if not text:
        return []
    return textwrap.wrap(
        printable(text),
        style.width,
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
