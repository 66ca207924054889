"""The report for a person at a terminal: verdict first, then what is wrong, then what would fit."""

from __future__ import annotations

import shlex
import textwrap
from typing import TYPE_CHECKING

from envguard.facts.findings import Status
from envguard.facts.machine import Machine
from envguard.printable import clean_document, printable
from envguard.render.stages import stage_lines
from envguard.render.summary import (
    by_gravity,
    environment_words,
    is_outside,
    machine_words,
    title_of,
    verdict_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.facts import Facts
    from envguard.facts.findings import Finding
    from envguard.facts.report import Recommendation, Report
    from envguard.render.page import Style

_COLOURS = {
    Status.FAIL: "red",
    Status.UNKNOWN: "yellow",
    Status.WARN: "yellow",
    Status.OK: "green",
    Status.SKIP: "dim",
}
_INDENT = " " * 8


def render_text(report: Report, style: Style) -> str:
    """Render a report for a terminal."""
    if "crash" in report.extra:
        return _crash_text(report, style)
    lines = [_headline(report, style)]
    if style.is_quiet:
        return lines[0] + "\n"
    lines.append("")
    if "phases" in report.extra:
        lines.extend(_plan_lines(report, style))
    else:
        lines.extend(_subject_lines(report.facts, style))
    lines.extend(_note_lines(report.notes, style))
    if "stages" in report.extra:
        lines.extend(["", *stage_lines(clean_document(report.extra["stages"]), style)])
    for finding in by_gravity(report.findings):
        is_subject = is_outside(report) and finding.package == "torch"
        if finding.status is Status.SKIP and not (style.is_verbose or is_subject):
            continue
        lines.append("")
        lines.extend(_finding_lines(finding, style))
    if report.recommended is not None:
        lines.append("")
        lines.extend(_recommendation_lines(report.recommended, report.findings, style))
    if style.is_verbose:
        lines.extend(_gap_lines(report.facts, style))
    footer = f"matrix {report.matrix_version}; `envguard explain CODE` tells more"
    lines.extend(["", style.paint(footer, "dim")])
    return "\n".join(lines) + "\n"


def _crash_text(report: Report, style: Style) -> str:
    from envguard.render.crash import crash_lines  # only for diagnoses

    return "\n".join(crash_lines(report, style)) + "\n"


def _plan_lines(report: Report, style: Style) -> Iterator[str]:
    from envguard.render.phases import plan_lines  # only for plans

    return plan_lines(clean_document(report.extra), style)


def _headline(report: Report, style: Style) -> str:
    words = style.paint(verdict_words(report), _COLOURS[report.verdict], "bold")
    cause = f" ({report.root_cause})" if report.root_cause else ""
    return f"{printable(title_of(report))}: {words}{cause}"


def _subject_lines(facts: Facts, style: Style) -> Iterator[str]:
    if facts.machine != Machine():
        yield from _wrap(machine_words(facts), style, first=f"{'machine':<8}", rest=_INDENT)
    yield from _wrap(environment_words(facts), style, first=f"{'subject':<8}", rest=_INDENT)


def _note_lines(notes: tuple[str, ...], style: Style) -> Iterator[str]:
    for note in notes:
        yield from _wrap(note, style, first=f"{'note':<8}", rest=_INDENT)


def _finding_lines(finding: Finding, style: Style) -> Iterator[str]:
    mark = style.paint(f"{finding.status.value.upper():<8}", _COLOURS[finding.status], "bold")
    title = list(_wrap(f"{finding.code} {finding.title}", style, first=_INDENT, rest=_INDENT))
    yield mark + title[0][len(_INDENT) :]
    yield from title[1:]
    quiet = finding.status is Status.OK and not style.is_verbose
    if quiet:
        return
    yield from _wrap(finding.detail, style, first=_INDENT, rest=_INDENT)
    if style.is_verbose:
        yield from _evidence_lines(finding, style)
    if finding.remedy is not None:
        yield from _wrap(
            finding.remedy.text, style, first=f"{_INDENT}fix: ", rest=f"{_INDENT}     "
        )
        yield from _command_lines(finding.remedy.command, style)


def _evidence_lines(finding: Finding, style: Style) -> Iterator[str]:
    for item in finding.evidence:
        yield from _dim_lines(f"{item.fact} = {item.value} (from {item.origin})", style)
    if finding.source is not None and finding.source.url:
        checked = f", checked {finding.source.checked}" if finding.source.checked else ""
        yield from _dim_lines(f"source: {finding.source.url}{checked}", style)


def _dim_lines(text: str, style: Style, first: str = _INDENT) -> list[str]:
    return [style.paint(line, "dim") for line in _wrap(text, style, first=first, rest=_INDENT)]


def _command_lines(command: tuple[str, ...], style: Style) -> Iterator[str]:
    if command:
        yield f"{_INDENT}  {style.paint('$ ' + printable(shlex.join(command)), 'cyan')}"


def _recommendation_lines(
    recommended: Recommendation, findings: tuple[Finding, ...], style: Style
) -> Iterator[str]:
    mark = style.paint(f"{'FITS':<8}", "green", "bold")
    lines = list(_wrap(recommended.why, style, first=_INDENT, rest=_INDENT))
    yield mark + lines[0][len(_INDENT) :]
    yield from lines[1:]
    shown = {f.remedy.command for f in findings if f.remedy is not None}
    if recommended.command not in shown:
        yield from _command_lines(recommended.command, style)


def _gap_lines(facts: Facts, style: Style) -> Iterator[str]:
    if facts.gaps:
        yield ""
    for gap in facts.gaps:
        detail = f": {gap.detail}" if gap.detail else ""
        text = f"{gap.fact} is not known ({gap.reason.value}, {gap.probe}){detail}"
        yield from _dim_lines(text, style, first=f"{'gap':<8}")


def _wrap(text: str, style: Style, *, first: str, rest: str) -> list[str]:
    if not text:
        return []
    return textwrap.wrap(
        printable(text),
        style.width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
