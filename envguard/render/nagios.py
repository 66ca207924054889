"""The verdict as a monitoring plugin says it: one line, and the plugin interface's exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.facts.findings import Status, worst_of
from envguard.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from envguard.facts.report import Report

_STATES = {
    Status.OK: ("OK", 0),
    Status.SKIP: ("OK", 0),
    Status.WARN: ("WARNING", 1),
    Status.FAIL: ("CRITICAL", 2),
    Status.UNKNOWN: ("UNKNOWN", 3),
}


def render_nagios(reports: Sequence[Report]) -> tuple[str, int]:
    """One status line and the exit code that goes with it.

    Args:
        reports: One, or those of several files, of which the worst counts.

    Source: Monitoring Plugins Development Guidelines, "Plugin Return Codes".
    """
    verdict = worst_of(report.verdict for report in reports)
    word, code = _STATES[verdict]
    findings = [finding for report in reports for finding in report.findings]
    titles = "; ".join(_titles(reports, verdict)) or "nothing to judge"
    line = " ".join(printable(titles).replace("|", "/").split())
    counts = " ".join(
        f"{status.value}={sum(f.status is status for f in findings)}"
        for status in (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.OK)
    )
    return f"ENVGUARD {word} - {line} | {counts}\n", code


def _titles(reports: Sequence[Report], verdict: Status) -> Iterator[str]:
    for report in reports:
        file = f"{report.extra['file']}: " if "file" in report.extra else ""
        found = (f for f in report.findings if f.status is verdict)
        yield from (f"{file}{f.code} {f.title}" for f in found)
