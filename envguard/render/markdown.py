"""The report as Markdown, to paste into an issue."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from envguard.facts.findings import Status
from envguard.facts.machine import Machine
from envguard.printable import clean_document, printable
from envguard.render.page import Style
from envguard.render.summary import (
    by_gravity,
    environment_words,
    machine_words,
    title_of,
    verdict_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.findings import Finding
    from envguard.facts.report import Report

_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|"})


def _escape(text: str) -> str:
    return printable(text).translate(_SPECIAL)


def render_markdown(report: Report, style: Style) -> str:
    """Render a report as GitHub-flavoured Markdown; names from the machine cannot break it."""
    cause = f" ({report.root_cause})" if report.root_cause else ""
    lines = [
        f"## {_escape(title_of(report))}: {verdict_words(report)}{cause}",
        "",
        *_subject(report),
        *(f"- note: {_escape(note)}" for note in report.notes),
        *_figures(report),
        "",
    ]
    if report.findings:
        lines += ["| status | code | finding |", "|---|---|---|"]
        lines += [_row(finding) for finding in by_gravity(report.findings)]
    for finding in by_gravity(report.findings):
        if finding.status in {Status.FAIL, Status.UNKNOWN, Status.WARN}:
            lines += ["", *_section(finding)]
    if report.recommended is not None:
        lines += ["", f"**Would fit:** {_escape(report.recommended.why)}"]
        lines += _command(report.recommended.command)
    lines += ["", f"matrix {report.matrix_version}"]
    return "\n".join(lines) + "\n"


def _subject(report: Report) -> Iterator[str]:
    """What was judged; a plan's figures say it themselves, and of a log only a part is known."""
    facts = report.facts
    if "phases" in report.extra:
        return
    if "crash" in report.extra:
        headline = str(report.extra["crash"]["headline"])
        yield f"- ending: {_escape(headline)}"
    if report.command == "check" or facts.machine != Machine():
        yield f"- machine: {_escape(machine_words(facts))}"
    if report.command == "check" or facts.environment is not None:
        yield f"- subject: {_escape(environment_words(facts))}"


def _figures(report: Report) -> Iterator[str]:
    """The tables of a plan or a smoke test, as a terminal shows them."""
    lines: Iterator[str] = iter(())
    if "phases" in report.extra:
        from envguard.render.phases import plan_lines  # only for plans

        lines = plan_lines(clean_document(report.extra), Style())
    elif "stages" in report.extra:
        from envguard.render.stages import stage_lines  # only for smoke tests

        lines = stage_lines(clean_document(report.extra["stages"]), Style())
    shown = [printable(line).replace("`", "'") for line in lines]
    if shown:
        yield from ("", "```text", *shown, "```")


def _row(finding: Finding) -> str:
    mark = finding.status.value
    status = f"**{mark}**" if finding.status is Status.FAIL else mark
    return f"| {status} | {finding.code} | {_escape(finding.title)} |"


def _section(finding: Finding) -> Iterator[str]:
    yield f"### {finding.code} {_escape(finding.title)}"
    yield ""
    if finding.detail:
        yield _escape(finding.detail)
        yield ""
    for item in finding.evidence:
        yield f"- {_escape(item.fact)} = {_escape(item.value)} (from {_escape(item.origin)})"
    if finding.source is not None and finding.source.url:
        yield f"- source: {_escape(finding.source.url)}"
    if finding.remedy is not None:
        yield ""
        yield f"**Fix:** {_escape(finding.remedy.text)}"
        yield from _command(finding.remedy.command)


def _command(command: tuple[str, ...]) -> list[str]:
    return ["", "```sh", printable(shlex.join(command)), "```"] if command else []
