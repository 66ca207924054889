"""None"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.facts.findings import Status
from tests.crash.logs import report_of

if TYPE_CHECKING:
    from envguard.facts.report import Report


STEP = "{'loss': 1.5, 'grad_norm': 1.1, 'learning_rate': 1e-05, 'epoch': 0.1}\n"
ERROR = "2024-05-01 10:00:00,000 - trainer - ERROR - the coordinator is gone\n"
TRACEBACK = "Traceback (most recent call last):\n  File 'a.py', line 1\nKeyError: 'labels'\n"


def causes(report: Report, status: Status) -> list[str | None]:
    return [finding.cause for finding in report.findings if finding.status is status]


@pytest.mark.parametrize("words", [ERROR, TRACEBACK])
def test_trouble_that_a_run_outlived_is_none(words: str) -> None:
    assert causes(report_of(words + 20 * STEP), Status.UNKNOWN) == ["ending-not-told"]
    assert report_of(words + "Training completed\n").verdict is Status.OK


@pytest.mark.parametrize("words", [ERROR, TRACEBACK])
def test_a_few_steps_of_other_ranks_do_not_show_that_it_went_on(words: str) -> None:
    assert report_of(20 * STEP + words + 3 * STEP).verdict is Status.UNKNOWN


def test_a_run_that_ended_well_had_no_trouble() -> None:
    assert report_of(ERROR, exit_code=0).verdict is Status.OK
    assert report_of(ERROR, exit_code=1).verdict is Status.UNKNOWN


def test_an_error_without_a_rule_shows_its_line() -> None:
    (finding,) = report_of("start\n" + ERROR).findings
    assert (finding.cause, finding.line) == ("unknown-error", 2)
    assert "the coordinator is gone" in finding.detail


def test_an_exception_after_an_ignored_one_counts_once_the_program_speaks_again() -> None:
    ignored = "Exception ignored in: <function f at 0x7f>\nTraceback (most recent call last):\n"
    ignored += "AssertionError: can only test a child process\n"
    assert causes(report_of(ignored), Status.UNKNOWN) == ["ending-not-told"]
    report = report_of(ignored + 60 * "evaluating\n" + TRACEBACK)
    assert causes(report, Status.UNKNOWN) == ["python-exception"]


def test_a_warning_does_not_hide_an_exception() -> None:
    report = report_of("loss is nan\n" + TRACEBACK)
    assert causes(report, Status.WARN) == ["loss-not-finite"]
    assert causes(report, Status.UNKNOWN) == ["python-exception"]
    assert report.verdict is Status.UNKNOWN
