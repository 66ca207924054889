"""Every file of tests/crashes gets the finding that it expects."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

from envguard.facts.findings import Status
from tests.crash import logs
from tests.crash.logs import FOLDER, CrashLog, load_log, report_of

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.facts.report import Report

LOGS = [load_log(path) for path in logs.LOGS.values()]


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


def test_no_two_logs_have_one_name() -> None:
    assert len(logs.LOGS) == len(list(FOLDER.rglob("*.txt")))


def _tables_of_causes() -> dict[str, str]:
    """Slug of a cause -> the table that holds it, without its ending."""
    tables = sorted((FOLDER.parents[1] / "compat_matrix" / "causes").glob("*.toml"))
    return {
        row["slug"]: path.stem
        for path in tables
        for row in tomllib.loads(path.read_text(encoding="utf-8")).get("cause", ())
    }


TABLES = _tables_of_causes()


@pytest.mark.parametrize("path", logs.LOGS.values(), ids=lambda path: path.stem)
def test_a_log_lies_in_the_folder_of_the_table_that_holds_its_cause(path: Path) -> None:
    words = load_log(path).expect.split()
    folder = "nothing" if words[0] == "ok" else TABLES[words[-1]]
    assert str(path.relative_to(FOLDER)) == f"{folder}/{path.name}"
