"""The report holds the stages beside the findings, in the shape of the schema."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

import envguard
from envguard.facts.environment import Accelerator
from envguard.facts.findings import Status
from envguard.facts.report import report_document
from envguard.render.page import Style
from envguard.render.stages import stage_lines
from envguard.smoke.smoke_report import smoke_report
from tests.smoke.fake import MATRIX, run_fake

SCHEMA = json.loads(
    (Path(envguard.__file__).parent / "render" / "report.schema.json").read_text(encoding="utf-8")
)


def test_the_document_fits_the_schema_and_holds_the_stages() -> None:
    document = report_document(smoke_report(run_fake(), MATRIX))
    jsonschema.validate(document, SCHEMA)
    assert document["command"] == "smoke"
    assert document["device"] == "cpu"
    assert [stage["id"] for stage in document["stages"]] == [
        "import",
        "cuda-init",
        "context",
        "forward",
        "backward",
        "optimizer-step",
        "reference",
        "shutdown",
    ]
    assert document["stages"][0]["details"]["torch"] == "9.9.9+fake"
    json.dumps(document, allow_nan=False)


@pytest.mark.skipif(os.name != "posix", reason="uses signals")
def test_a_crash_fits_the_schema_too() -> None:
    document = report_document(smoke_report(run_fake("backward=segfault"), MATRIX))
    jsonschema.validate(document, SCHEMA)
    assert document["verdict"] == "fail"
    assert document["root_cause"] == "unknown-segfault"
    (stage,) = [s for s in document["stages"] if s["id"] == "backward"]
    assert stage["error"]["kind"] == "signal"


def test_facts_are_what_torch_said_of_itself() -> None:
    report = smoke_report(run_fake(gpu="12.8,9.0,sm_90 sm_80 compute_90"), MATRIX)
    environment = report.facts.environment
    assert environment is not None
    assert environment.torch is not None
    assert str(environment.torch.version) == "9.9.9+fake"
    assert str(environment.torch.cuda) == "12.8"
    assert environment.torch.accelerator is Accelerator.CUDA
    assert [str(t) for t in environment.torch.targets or ()] == ["sm_80", "sm_90", "compute_90"]
    assert report.verdict is Status.OK


def test_a_version_that_is_none_is_not_made_up() -> None:
    report = smoke_report(run_fake(FAKE_TORCH_VERSION="from source"), MATRIX)
    environment = report.facts.environment
    assert environment is not None
    assert environment.torch is not None
    assert environment.torch.version is None


def test_the_table_has_a_line_for_each_stage_that_was_reached() -> None:
    report = smoke_report(run_fake("backward=raise", message="boom\nmore"), MATRIX)
    lines = list(stage_lines(report.extra["stages"], Style(width=80)))
    assert [line.split()[:2] for line in lines] == [
        ["stage", "time"],
        ["ok", "import"],
        ["skip", "cuda-init"],
        ["ok", "context"],
        ["ok", "forward"],
        ["FAIL", "backward"],
        ["ok", "shutdown"],
        ["-", "not"],
    ]
    assert lines[5].endswith("  boom")
    assert lines[-1] == "-     not reached: optimizer-step, reference"
    assert max(map(len, lines)) <= 80


def test_a_stage_of_another_shape_does_not_fit_the_schema() -> None:
    document = report_document(smoke_report(run_fake(stages=("import",)), MATRIX))
    document["stages"][0]["status"] = "maybe"
    with pytest.raises(jsonschema.ValidationError, match="'maybe' is not one of"):
        jsonschema.validate(document, SCHEMA)
