"""The report as GitHub workflow commands: annotations on the lockfile's lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.facts.findings import Status
from envguard.printable import printable
from envguard.render.summary import by_gravity, title_of, verdict_words

if TYPE_CHECKING:
    from envguard.facts.findings import Finding
    from envguard.facts.report import Report
    from envguard.render.page import Style

_COMMANDS = {Status.FAIL: "error", Status.UNKNOWN: "warning", Status.WARN: "warning"}


def render_github(report: Report, style: Style) -> str:
    """Render one workflow command a finding that is not fine, then the verdict as plain text."""
    environment = report.facts.environment
    document = environment.document if environment is not None else None
    lines = [
        _annotation(finding, document)
        for finding in by_gravity(report.findings)
        if finding.status in _COMMANDS
    ]
    cause = f" ({report.root_cause})" if report.root_cause else ""
    lines.append(f"{_data(title_of(report))}: {verdict_words(report)}{cause}")
    return "\n".join(lines) + "\n"


def _annotation(finding: Finding, document: str | None) -> str:
    properties = {"title": f"{finding.code} {finding.cause}"}
    if document is not None:
        properties["file"] = document
        if finding.line is not None:
            properties["line"] = str(finding.line)
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    remedy = f"\nFix: {finding.remedy.text}" if finding.remedy else ""
    detail = f"\n{finding.detail}" if finding.detail else ""
    return f"::{_COMMANDS[finding.status]} {listed}::{_data(finding.title + detail + remedy)}"


def _data(text: str) -> str:
    """Escape a message, as the runner decodes it."""
    return printable(text).replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a property's value, which may hold no colon or comma either."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
