"""Verdicts and root causes out of findings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envguard.facts.findings import Finding, Status, root_cause_of, verdict_of

ORDER = ("driver-too-old-for-cuda", "arch-missing-old-gpu", "abi-torch-version")


def finding(status: Status, cause: str = "x") -> Finding:
    return Finding("TST001", cause, status, "title")


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        ([], Status.OK),
        ([Status.SKIP], Status.OK),
        ([Status.OK, Status.SKIP], Status.OK),
        ([Status.OK, Status.WARN], Status.WARN),
        ([Status.WARN, Status.UNKNOWN, Status.OK], Status.UNKNOWN),
        ([Status.UNKNOWN, Status.FAIL, Status.WARN], Status.FAIL),
    ],
)
def test_the_worst_status_is_the_verdict(statuses: list[Status], verdict: Status) -> None:
    assert verdict_of([finding(status) for status in statuses]) is verdict


@given(st.lists(st.sampled_from(Status)))
def test_the_order_of_findings_does_not_matter(statuses: list[Status]) -> None:
    forwards = verdict_of(finding(status) for status in statuses)
    assert verdict_of(finding(status) for status in reversed(statuses)) is forwards


def test_the_most_fundamental_cause_of_the_worst_findings_is_the_root() -> None:
    findings = [
        finding(Status.WARN, "driver-too-old-for-cuda"),
        finding(Status.FAIL, "abi-torch-version"),
        finding(Status.FAIL, "arch-missing-old-gpu"),
    ]
    assert root_cause_of(findings, ORDER) == "arch-missing-old-gpu"


def test_causes_outside_the_order_come_last_as_found() -> None:
    findings = [finding(Status.FAIL, "b"), finding(Status.FAIL, "a")]
    assert root_cause_of(findings, ORDER) == "b"
    findings.append(finding(Status.FAIL, "abi-torch-version"))
    assert root_cause_of(findings, ORDER) == "abi-torch-version"


@pytest.mark.parametrize("status", [Status.OK, Status.UNKNOWN, Status.SKIP])
def test_ok_and_unknown_have_no_root_cause(status: Status) -> None:
    assert root_cause_of([finding(status, "driver-too-old-for-cuda")], ORDER) is None


def test_nothing_has_no_root_cause() -> None:
    assert root_cause_of([], ORDER) is None
