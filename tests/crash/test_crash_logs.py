"""Every file of tests/crashes gets the finding that it expects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.facts.findings import Status
from tests.crash.logs import FOLDER, CrashLog, load_log, report_of

if TYPE_CHECKING:
    from envguard.facts.report import Report

LOGS = [load_log(path) for path in sorted(FOLDER.glob("*.txt"))]


def first_words(report: Report) -> str:
    """The finding that a reader sees first, as the header of a log writes it."""
    order = [Status.FAIL, Status.UNKNOWN, Status.WARN, Status.OK, Status.SKIP]
    by_cause = [f for f in report.findings if f.cause == report.root_cause]
    first = (by_cause or sorted(report.findings, key=lambda f: order.index(f.status)))[0]
    status = "" if report.verdict is Status.FAIL else f"{report.verdict.value} "
    return f"{status}{first.code} {first.cause}"


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_log_gets_the_finding_it_expects(log: CrashLog) -> None:
    code = log.options.get("exit-code")
    report = report_of(
        log.text,
        exit_code=int(code) if code else None,
        phase=log.options.get("phase"),
        facts=log.facts(),
    )
    assert first_words(report) == log.expect


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_no_cause_is_invented_where_the_log_has_none(log: CrashLog) -> None:
    code = log.options.get("exit-code")
    report = report_of(
        log.text,
        exit_code=int(code) if code else None,
        phase=log.options.get("phase"),
        facts=log.facts(),
    )
    words = log.expect.split()
    if words[0] in {"unknown", "ok", "warn"}:
        assert report.root_cause is None or report.verdict is Status.WARN
        assert not [f for f in report.findings if f.status is Status.FAIL]
