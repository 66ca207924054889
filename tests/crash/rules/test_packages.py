"""Breaks that the table knows, told by a log: with versions, without, and against them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.facts.facts import Facts
from envguard.facts.findings import Status
from envguard.ingest.stated import parse_stated, stated_facts
from envguard.ingest.stated_pins import add_pins
from tests.crash.logs import report_of

if TYPE_CHECKING:
    from envguard.facts.report import Report


SITE = "/env/lib/python3.11/site-packages"
OPTIMIZER = f"""\
  File "{SITE}/accelerate/optimizer.py", line 128, in train
    return self.optimizer.train()
AttributeError: 'AdamW' object has no attribute 'train'
"""


def facts(*pins: str) -> Facts:
    found, _ = stated_facts(parse_stated(platform="linux-x86_64"))
    return Facts(found.machine, add_pins(None, pins), found.gaps)


def failing(report: Report) -> list[str]:
    return [f.title for f in report.findings if f.status is Status.FAIL]


def test_log_and_versions_give_one_finding_with_both() -> None:
    report = report_of(OPTIMIZER, facts=facts("transformers==4.45.0", "accelerate==0.33.0"))
    (finding,) = [f for f in report.findings if f.cause == "transformers-regression"]
    assert finding.status is Status.FAIL
    assert finding.line == 1
    assert [item.value for item in finding.evidence[:2]] == ["4.45.0", "0.33.0"]
    assert any("object has no attribute 'train'" in item.value for item in finding.evidence)
    assert finding.remedy is not None
    assert "accelerate>=0.34.2" in finding.remedy.text


def test_words_that_nothing_else_prints_need_no_versions() -> None:
    report = report_of(OPTIMIZER)
    assert failing(report) == ["This accelerate hands train() on to optimizers that do not have it"]


def test_versions_of_another_release_rule_it_out() -> None:
    report = report_of(OPTIMIZER, facts=facts("transformers==4.49.0", "accelerate==1.4.0"))
    assert failing(report) == []
    assert report.verdict is Status.UNKNOWN


def test_what_a_feature_takes_is_no_condition_where_it_happened() -> None:
    text = "AssertionError: no_sync context manager is incompatible with gradient partitioning\n"
    text = text.replace("partitioning", "partitioning logic of ZeRO stage 3")
    pins = facts("deepspeed==0.16.2", "transformers==4.46.3")
    (finding,) = [f for f in report_of(text, facts=pins).findings if f.status is Status.FAIL]
    assert not finding.detail.startswith("Only where")
    assert finding.cause == "transformers-regression"


@pytest.mark.parametrize(
    ("pins", "verdict"),
    [
        ((), Status.UNKNOWN),
        (("torch==2.5.0",), Status.FAIL),
    ],
)
def test_words_that_others_print_too_need_the_version(
    pins: tuple[str, ...], verdict: Status
) -> None:
    text = (
        '  File "/usr/local/lib64/python3.9/site-packages/torch/__init__.py", line 300, in '
        "_load_global_deps\nOSError: libcudart.so.12: cannot open shared object file\n"
    )
    report = report_of(text, facts=facts(*pins) if pins else None)
    named = {f.cause: f.status for f in report.findings}
    assert named.get("torch-release-bug", Status.UNKNOWN) is verdict
