"""The verdict as a monitoring plugin says it: one line, and the plugin interface's exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.facts.findings import Status
from envguard.printable import printable

if TYPE_CHECKING:
    from envguard.facts.report import Report

_STATES = {
    Status.OK: ("OK", 0),
    Status.SKIP: ("OK", 0),
    Status.WARN: ("WARNING", 1),
    Status.FAIL: ("CRITICAL", 2),
    Status.UNKNOWN: ("UNKNOWN", 3),
}


def render_nagios(report: Report) -> tuple[str, int]:
    """One status line and the exit code that goes with it.

    Source: Monitoring Plugins Development Guidelines, "Plugin Return Codes".
    """
    word, code = _STATES[report.verdict]
    worst = [f for f in report.findings if f.status is report.verdict]
    titles = "; ".join(f"{f.code} {f.title}" for f in worst) or "nothing to judge"
    line = " ".join(printable(titles).replace("|", "/").split())
    counts = " ".join(
        f"{status.value}={sum(f.status is status for f in report.findings)}"
        for status in (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.OK)
    )
    return f"ENVGUARD {word} - {line} | {counts}\n", code
