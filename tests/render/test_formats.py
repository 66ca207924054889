"""Each format against a strict reader of it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

import jsonschema
import pytest

from envguard.facts.facts import Facts
from envguard.facts.findings import Status
from envguard.render import FORMATS, Style, render_report, render_reports
from envguard.render.nagios import render_nagios
from envguard.render.redact import redact, redact_text
from tests.render.reports import HOSTILE, UUID, finding, full_report, report

if TYPE_CHECKING:
    from envguard.facts.report import Report

PLAIN = Style()

# What SARIF 2.1.0 (OASIS standard, section 3) demands of the members that are written here.
SARIF_SUBSET = {
    "type": "object",
    "additionalProperties": False,
    "required": ["version", "runs", "$schema"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/run"}},
    },
    "$defs": {
        "message": {
            "type": "object",
            "additionalProperties": False,
            "required": ["text"],
            "properties": {"text": {"type": "string", "minLength": 1}},
        },
        "run": {
            "type": "object",
            "additionalProperties": False,
            "required": ["tool", "results"],
            "properties": {
                "tool": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["driver"],
                    "properties": {
                        "driver": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["name"],
                            "properties": {
                                "name": {"type": "string"},
                                "version": {"type": "string"},
                                "rules": {"type": "array", "uniqueItems": True},
                            },
                        }
                    },
                },
                "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "properties": {"type": "object"},
            },
        },
        "result": {
            "type": "object",
            "additionalProperties": False,
            "required": ["message"],
            "properties": {
                "ruleId": {"type": "string"},
                "level": {"enum": ["none", "note", "warning", "error"]},
                "kind": {
                    "enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]
                },
                "message": {"$ref": "#/$defs/message"},
                "locations": {"type": "array", "items": {"$ref": "#/$defs/location"}},
                "properties": {"type": "object"},
            },
        },
        "location": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "physicalLocation": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "artifactLocation": {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {"uri": {"type": "string", "format": "uri-reference"}},
                        },
                        "region": {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {"startLine": {"type": "integer", "minimum": 1}},
                        },
                    },
                },
                "logicalLocations": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {"name": {"type": "string"}, "kind": {"type": "string"}},
                    },
                },
            },
        },
    },
}


def test_json_is_what_its_schema_says() -> None:
    schema = json.loads(files("envguard.render").joinpath("report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(render_report(full_report(), "json", PLAIN))
    jsonschema.validate(document, schema)
    assert [f["status"] for f in document["findings"]] == ["skip", "ok", "warn", "unknown", "fail"]
    assert document["findings"][0]["detail"] == f"detail, {HOSTILE}"


def test_sarif_is_valid_and_points_into_the_lockfile() -> None:
    document = json.loads(render_report(full_report("locks/pylock.toml"), "sarif", PLAIN))
    jsonschema.validate(document, SARIF_SUBSET)
    (run,) = document["runs"]
    worst = run["results"][0]
    assert (worst["ruleId"], worst["level"], worst["kind"]) == ("GPU001", "error", "fail")
    assert worst["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "locks/pylock.toml"},
        "region": {"startLine": 12},
    }
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} == rules
    assert all(r["level"] == "none" for r in run["results"] if r["kind"] != "fail")


def test_sarif_without_a_document_names_the_package() -> None:
    document = json.loads(render_report(full_report(), "sarif", PLAIN))
    jsonschema.validate(document, SARIF_SUBSET)
    location = document["runs"][0]["results"][0]["locations"][0]
    assert location == {"logicalLocations": [{"name": "torch", "kind": "module"}]}


def test_junit_counts_what_it_holds() -> None:
    root = ET.fromstring(render_report(full_report(), "junit", PLAIN))  # noqa: S314 - our own text
    (suite,) = root
    counted = {key: int(suite.attrib[key]) for key in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": 5, "failures": 1, "errors": 1, "skipped": 1}
    assert len(suite.findall("testcase")) == 5
    assert [len(suite.findall(f"testcase/{tag}")) for tag in ("failure", "error", "skipped")] == [
        1,
        1,
        1,
    ]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.attrib["type"] == "arch-missing-old-gpu"


def test_junit_has_a_suite_for_each_of_several_files() -> None:
    # What is parsed was written by the program a moment ago; it is nobody else's document.
    root = ET.fromstring(render_reports(several(), "junit", PLAIN))  # noqa: S314 - our own text
    assert [suite.attrib["name"] for suite in root] == [
        "envguard check a.lock",
        "envguard check b.lock",
    ]
    assert (root.attrib["tests"], root.attrib["failures"]) == ("6", "1")
    assert [suite.attrib["failures"] for suite in root] == ["1", "0"]


def test_sarif_of_several_files_is_one_run() -> None:
    document = json.loads(render_reports(several(), "sarif", PLAIN))
    jsonschema.validate(document, SARIF_SUBSET)
    (run,) = document["runs"]
    assert run["properties"] == {"verdict": "fail", "rootCause": "arch-missing-old-gpu"}
    places = [r["locations"][0]["physicalLocation"]["artifactLocation"] for r in run["results"]]
    assert [place["uri"] for place in places] == ["a.lock"] * 5 + ["b.lock"]


@pytest.mark.parametrize("name", ["text", "markdown", "github"])
def test_text_of_several_files_heads_each_with_its_name(name: str) -> None:
    text = render_reports(several(), name, PLAIN)
    assert "envguard check a.lock: does not fit" in text
    assert "envguard check b.lock: fits" in text
    assert text.splitlines()[-1] == "envguard check: 2 files: 1 does not fit; 1 fits"


def several() -> list[Report]:
    good = report(finding(Status.OK), document="b.lock")
    both = (full_report("a.lock"), good)
    return [
        replace(one, extra={"file": f"{name}.lock"}) for one, name in zip(both, "ab", strict=True)
    ]


def test_github_commands_are_one_line_each_and_decode_back() -> None:
    lines = render_report(full_report("pylock.toml"), "github", PLAIN).splitlines()
    commands = [line for line in lines if line.startswith("::")]
    assert [c.split(" ", 1)[0] for c in commands] == ["::error", "::warning", "::warning"]
    assert commands[0].startswith(
        "::error title=GPU001 arch-missing-old-gpu,file=pylock.toml,line=12::title of fail%0A"
    )
    assert "%250A" in commands[0]
    assert len(lines) == 4


def test_markdown_table_cannot_be_broken() -> None:
    text = render_report(report(finding(Status.FAIL, title=HOSTILE)), "markdown", PLAIN)
    (row,) = [line for line in text.splitlines() if line.startswith("| **fail**")]
    assert row.replace("\\|", "").count("|") == 4
    assert "\x1b" not in text
    assert "```sh\npip install torch==2.11.0+cu126\n```" in text


def test_text_says_the_gravest_first_and_wraps() -> None:
    text = render_report(full_report(), "text", PLAIN)
    lines = text.splitlines()
    assert lines[0] == "envguard check: does not fit (arch-missing-old-gpu)"
    marks = [
        line.split()[0] for line in lines if line[:4] in {"FAIL", "UNKN", "WARN", "OK  ", "SKIP"}
    ]
    assert marks == ["FAIL", "UNKNOWN", "WARN", "OK"]  # what does not apply is for --verbose
    assert "SKIP" in render_report(full_report(), "text", Style(is_verbose=True))
    assert max(len(line) for line in lines) <= 110


def test_quiet_text_is_one_line_and_colour_is_asked_for() -> None:
    assert render_report(full_report(), "text", Style(is_quiet=True)).count("\n") == 1
    coloured = render_report(report(), "text", Style(is_coloured=True))
    assert coloured.startswith("envguard check: \x1b[32;1mfits\x1b[0m")
    assert "\x1b" not in render_report(report(), "text", PLAIN)


@pytest.mark.parametrize(
    ("status", "word", "code"),
    [
        (Status.OK, "OK", 0),
        (Status.WARN, "WARNING", 1),
        (Status.FAIL, "CRITICAL", 2),
        (Status.UNKNOWN, "UNKNOWN", 3),
    ],
)
def test_nagios_line_and_exit_code(status: Status, word: str, code: int) -> None:
    line, found = render_nagios([report(finding(status))])
    assert (line.split()[1], found) == (word, code)
    assert line.count("\n") == 1
    assert line.count("|") == 1


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_redacted_report_names_no_machine(name: str) -> None:
    leaky = report(finding(Status.FAIL, detail=f"see /srv/secret/env/bin/python and {UUID}"))
    text = render_report(redact(leaky), name, Style(is_verbose=True))
    assert "secret" not in text
    assert "12345678" not in text
    assert "install another build" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in /home/ann/env/bin/python3", "in <path>/python3"),
        ("C:\\Users\\ann\\env\\python.exe", "<path>\\python.exe"),
        ("https://download.pytorch.org/whl/cu126", "https://download.pytorch.org/whl/cu126"),
        ("https://index.example/whl/cu126", "https://<host>/whl/cu126"),
        ("file:///home/ann/private/x.whl", "file://<path>/x.whl"),
        ("/home/Ann Doe/my proj/x.py failed", "<path>/x.py failed"),
        ("/home/ann said ann", "<path> said <redacted>"),
        ("'/data/Ann Doe/x y/z'", "'<path>'"),
        ("10.1.2.3:29500, fe80::1ff:fe23:4567:890a%eth0", "<ip>:29500, <ip>"),
        (
            "nvidia-curand-cu12==10.3.5.147, nccl 2.21.5.1",
            "nvidia-curand-cu12==10.3.5.147, nccl 2.21.5.1",
        ),
        ("c10::Error at 12:30:45", "c10::Error at 12:30:45"),
        ("mail ann.doe@mail.example", "mail <email>"),
        ("host      : gpu-3.cluster.internal", "host      : <host>"),
        ("Nov 30 12:00:01 node17 kernel: NVRM", "Nov 30 12:00:01 <host> kernel: NVRM"),
        ("tcp://node17:29500", "tcp://<host>:29500"),
        ("sm_80/sm_90 and 1/2", "sm_80/sm_90 and 1/2"),
        (UUID, "GPU-<redacted>"),
        ("MIG-12345678-1234-1234-1234-123456789abc", "MIG-<redacted>"),
    ],
)
def test_redaction_of_texts(text: str, expected: str) -> None:
    assert redact_text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "quark:1234:5678 [0] NCCL INFO NET/IB : Using [0]mlx5_0",
        "[1,0]<stdout>:quark:1234:5678 [0] NCCL WARN connection refused",
        "[quark:12345] *** Process received signal ***",
        "[quark:12345] [ 0] /lib/libpthread.so.0(+0x12)",
        "process rank 3 with PID 0 on node quark7 exited on signal 9",
        "srun: error: quark: task 3: Killed",
        "slurmstepd: error: *** STEP 1.0 ON quark CANCELLED AT 2024-01-01T00:00:00 ***",
        "SLURM_JOB_NODELIST=quark[01-04]",
        "The client socket has failed to connect to [quark]:29500 (errno: 110)",
        "The IPv6 network addresses of (quark, 29500) cannot be retrieved",
        "torchrun --rdzv_endpoint quark:29400 --master_addr quark",
        "quark slots=8",
        "the job on quark-gpu-node-03 failed",
        "ssh quark@10.1.2.3",
        "user=quark uid=1000",
        "wandb: Currently logged in as: quark (team)",
        "~quark/x and quark again",
    ],
)
def test_redaction_knows_where_nodes_and_users_stand(text: str) -> None:
    assert "quark" not in redact_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "node 0 of 2: node_rank=0 nnodes=2 compute capability 9.0, compute_90 sm_90, DGX-A100",
        "on host memory of node 3; connected to 8 GPUs; resolve dependencies, 3 found",
        "torch 2.7.1.4, driver 31.0.15.3623, cudnn 9.1.0.70, NCCL 2.21.5.1",
        "00000000:01:00.0 at 12:34:56",
        "user=root",
        "[rank0]:[W1130 10:00:00.123456789 ProcessGroupNCCL.cpp:1250] Warning",
    ],
)
def test_redaction_keeps_what_names_nobody(text: str) -> None:
    assert redact_text(text) == text


def test_redaction_takes_an_address_behind_one_that_it_took() -> None:
    assert redact_text("a@b.example 10.1.2.3") == "<email> <ip>"


def test_markdown_of_a_smoke_test_shows_its_stages_and_nothing_can_end_the_block() -> None:
    stage = {
        "id": "import",
        "title": "import torch",
        "status": "fail",
        "seconds": 1.0,
        "message": "```\n# no heading",
        "peak_rss_bytes": None,
    }
    smoke = replace(report(finding(Status.FAIL)), command="smoke", extra={"stages": [stage]})
    text = render_report(smoke, "markdown", PLAIN)
    block = text.partition("```text\n")[2].partition("\n```\n")[0]
    assert "FAIL  import " in block
    assert "- machine: " in text
    assert text.count("```") == 6  # this block, and those of two commands


def test_markdown_of_a_diagnosis_says_how_the_run_ended_and_no_machine_that_is_not_known() -> None:
    crash = {"headline": "rank 0 died of SIGKILL (-9) while it saved a checkpoint"}
    judged = replace(report(), command="diagnose", extra={"crash": crash}, facts=Facts())
    lines = render_report(judged, "markdown", PLAIN).splitlines()
    assert lines[0] == "## envguard diagnose: nothing wrong was found"
    assert lines[2] == "- ending: rank 0 died of SIGKILL (-9) while it saved a checkpoint"
    assert lines[3] == "- note: a note"
