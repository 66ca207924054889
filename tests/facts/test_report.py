"""The report envelope and exit codes."""

from __future__ import annotations

import json

import pytest

from envguard import __version__
from envguard.errors import ExitCode
from envguard.facts.facts import Facts
from envguard.facts.findings import Evidence, Finding, Remedy, Source, Status
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.report import Recommendation, exit_code_of, make_report, report_document

FINDING = Finding(
    code="GPU001",
    cause="arch-missing-old-gpu",
    status=Status.FAIL,
    title="no code for this GPU",
    gpus=(0,),
    package="torch",
    evidence=(Evidence("gpu[0].capability", "7.0", "nvml"),),
    remedy=Remedy("install another build", ("pip", "install", "torch==2.11.0")),
    source=Source("https://index.example/rule", "2026-11-29"),
)
GAP = Gap("machine.driver.version", GapReason.ABSENT, "nvml", "no library")


def test_the_document_has_the_promised_shape() -> None:
    report = make_report(
        "check",
        Facts().with_gaps(GAP),
        (FINDING,),
        matrix_version="2026.11.29",
        cause_order=("arch-missing-old-gpu",),
        recommended=Recommendation("2.11.0", "cu126", "https://index.example/cu126", "it fits"),
        notes=("a remark",),
        extra={"peaks": {"gpu_gib_per_rank": 12.5}},
    )
    document = json.loads(json.dumps(report_document(report)))
    assert list(document) == [
        "schema_version",
        "tool",
        "matrix",
        "command",
        "verdict",
        "root_cause",
        "findings",
        "recommended",
        "peaks",
        "notes",
        "facts",
        "gaps",
    ]
    assert document["tool"] == {"name": "envguard", "version": __version__}
    assert document["matrix"] == {"version": "2026.11.29"}
    assert document["verdict"] == "fail"
    assert document["root_cause"] == "arch-missing-old-gpu"
    assert document["recommended"]["backend"] == "cu126"
    assert document["peaks"] == {"gpu_gib_per_rank": 12.5}
    assert "gaps" not in document["facts"]
    assert document["gaps"] == [
        {
            "fact": "machine.driver.version",
            "reason": "absent",
            "probe": "nvml",
            "detail": "no library",
        }
    ]


def test_a_finding_is_written_as_promised() -> None:
    report = make_report("check", Facts(), (FINDING,), matrix_version="1", cause_order=())
    (written,) = report_document(report)["findings"]
    assert written["code"] == "GPU001"
    assert written["gpus"] == [0]
    assert written["evidence"] == [{"fact": "gpu[0].capability", "value": "7.0", "from": "nvml"}]
    assert written["remedy"] == {
        "text": "install another build",
        "command": ["pip", "install", "torch==2.11.0"],
    }
    assert written["source"] == {"url": "https://index.example/rule", "checked": "2026-11-29"}


def test_a_report_without_findings_is_ok_and_recommends_nothing() -> None:
    report = make_report("check", Facts(), (), matrix_version="1", cause_order=())
    document = report_document(report)
    assert (document["verdict"], document["root_cause"]) == ("ok", None)
    assert document["recommended"] is None


@pytest.mark.parametrize(
    ("verdict", "fail_on", "code"),
    [
        (Status.OK, Status.FAIL, ExitCode.FITS),
        (Status.WARN, Status.FAIL, ExitCode.FITS),
        (Status.UNKNOWN, Status.FAIL, ExitCode.COULD_NOT_TELL),
        (Status.FAIL, Status.FAIL, ExitCode.DOES_NOT_FIT),
        (Status.OK, Status.WARN, ExitCode.FITS),
        (Status.WARN, Status.WARN, ExitCode.DOES_NOT_FIT),
        (Status.UNKNOWN, Status.WARN, ExitCode.DOES_NOT_FIT),
        (Status.WARN, Status.UNKNOWN, ExitCode.FITS),
        (Status.UNKNOWN, Status.UNKNOWN, ExitCode.DOES_NOT_FIT),
        (Status.FAIL, Status.UNKNOWN, ExitCode.DOES_NOT_FIT),
        (Status.SKIP, Status.FAIL, ExitCode.FITS),
    ],
)
def test_verdicts_have_exit_codes(verdict: Status, fail_on: Status, code: ExitCode) -> None:
    assert exit_code_of(verdict, fail_on=fail_on) is code


def test_exit_codes_never_change() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "FITS": 0,
        "DOES_NOT_FIT": 1,
        "USAGE": 2,
        "COULD_NOT_TELL": 3,
        "ENVGUARD_FAILED": 4,
    }
