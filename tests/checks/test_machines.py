"""Every file in tests/machines is a facts document with the answer that is right for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from envguard.checks.context import CheckOptions
from envguard.facts.facts import parse_facts_document
from envguard.judge import judge
from envguard.matrix.loader import Matrix

if TYPE_CHECKING:
    from envguard.facts.report import Report

FOLDER = Path(__file__).resolve().parents[1] / "machines"
FILES = sorted(FOLDER.glob("*.json"))
INDEX = "https://index.example/whl/{backend}"


def load(path: Path) -> tuple[dict[str, Any], Report]:
    document = json.loads(path.read_text())
    facts = parse_facts_document(document, path.name)
    report = judge(facts, Matrix.load(), CheckOptions(), torch_index=INDEX)
    return document["expect"], report


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_machine_gets_the_right_verdict(path: Path) -> None:
    expect, report = load(path)
    assert report.verdict.value == expect["verdict"], [f.title for f in report.findings]
    assert report.root_cause == expect["root_cause"]
    assert sorted(f.code for f in report.findings) == expect["codes"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_machine_gets_the_right_recommendation(path: Path) -> None:
    expect, report = load(path)
    if "recommended" in expect:
        assert report.recommended is not None
        found = f"{report.recommended.torch}+{report.recommended.backend}"
        assert found == expect["recommended"]
    if "gpus" in expect:
        (failing,) = [f for f in report.findings if f.status.value == "fail"]
        assert list(failing.gpus) == expect["gpus"]
    elif expect["verdict"] == "ok" and expect["codes"] != ["WHL001"]:
        assert report.recommended is None


def test_a_failing_machine_says_what_to_do() -> None:
    for path in FILES:
        expect, report = load(path)
        if expect["verdict"] == "fail":
            failing = [f for f in report.findings if f.status.value == "fail"]
            assert all(f.remedy or report.recommended is None for f in failing), path.name
