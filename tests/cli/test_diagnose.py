"""``envguard diagnose`` as a command: exit codes, one JSON document, bad input."""

from __future__ import annotations

import io
import json
import sys
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from envguard.cli.main import main
from tests.crash.logs import LOGS, load_log

if TYPE_CHECKING:
    from pathlib import Path


SCHEMA = json.loads(files("envguard.render").joinpath("report.schema.json").read_text())


def diagnose(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    status = main(["diagnose", *words, "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    return status, document


@pytest.mark.parametrize(
    ("name", "status", "verdict"),
    [
        ("fabric-802", 1, "fail"),
        ("segv-alone", 3, "unknown"),
        ("nothing", 0, "ok"),
        ("uv-parse", 0, "warn"),
    ],
)
def test_exit_codes_follow_the_verdict(
    name: str, status: int, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, document = diagnose(str(LOGS[name]), capsys=capsys)
    assert (found, document["verdict"]) == (status, verdict)


@pytest.mark.parametrize("path", list(LOGS.values())[::6], ids=lambda path: path.stem)
def test_documents_fit_the_schema(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, document = diagnose(str(path), "--exit-code", "1", capsys=capsys)
    jsonschema.validate(document, SCHEMA)
    assert document["command"] == "diagnose"
    assert document["crash"]["headline"]


@pytest.mark.parametrize("style", ["text", "markdown", "sarif", "junit", "github"])
def test_every_format_writes_every_kind_of_diagnosis(
    style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("oom-rank0-gather", "segv-alone", "nothing"):
        main(["diagnose", str(LOGS[name]), "--format", style])
        assert capsys.readouterr().out.strip()


def test_a_log_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = load_log(LOGS["nvml-mismatch"]).text.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    status, document = diagnose("-", capsys=capsys)
    assert (status, document["root_cause"]) == (1, "nvml-kernel-userspace-mismatch")


def test_several_logs_keep_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.log").write_text("Saving model checkpoint to out\nKilled\n")
    (tmp_path / "dmesg.txt").write_text(
        "x\nOut of memory: Killed process 91 (python) total-vm:9kB, anon-rss:8kB\n"
    )
    _, document = diagnose(str(tmp_path / "train.log"), str(tmp_path / "dmesg.txt"), capsys=capsys)
    assert document["root_cause"] == "host-oom-save"
    facts = [item["fact"] for item in document["findings"][0]["evidence"]]
    assert "dmesg.txt line 2" in facts
    assert "train.log line 1" in facts


def test_pins_and_a_machine_reason_with_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "x.log"
    log.write_text("RuntimeError: CUDA error: no kernel image is available for execution\n")
    status, document = diagnose(
        str(log),
        "torch==2.11.0+cu128",
        "--gpu",
        "Tesla V100",
        "--platform",
        "linux-x86_64",
        capsys=capsys,
    )
    assert (status, document["root_cause"]) == (1, "arch-missing-old-gpu")
    assert document["recommended"]["backend"] == "cu126"


def test_a_gpu_that_the_tables_do_not_know_does_not_stop_a_diagnosis(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("--gpu", "GeForce of tomorrow", "--platform", "linux-x86_64")
    status, document = diagnose(str(LOGS["compat-804"]), *words, capsys=capsys)
    assert (status, document["root_cause"]) == (1, "compat-libcuda-in-image-on-geforce")


def test_an_exit_status_without_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    status, document = diagnose("--exit-code", "-9", "--phase", "save", capsys=capsys)
    assert (status, document["root_cause"]) == (3, None)
    assert document["findings"][0]["cause"] == "host-oom-save"


@pytest.mark.parametrize("words", [(), ("torch==2.7.1",), ("--phase", "save")])
def test_nothing_said_of_the_run_is_wrong_usage(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    status, document = diagnose(*words, capsys=capsys)
    assert status == 2
    assert document["error"]["message"].startswith("nothing is said of the run")


def test_a_log_that_is_not_there_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, document = diagnose(str(tmp_path / "no.log"), capsys=capsys)
    assert status == 2
    assert "no.log: cannot be read" in document["error"]["message"]


def test_a_folder_that_is_no_record_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, document = diagnose(str(tmp_path), capsys=capsys)
    assert status == 2
    assert "run.json" in document["error"]["message"]


def test_text_says_first_what_died_and_how_sure_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", str(LOGS["oom-load-torchrun"])])
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "Rank 0 died of SIGKILL (-9) while it loaded the model."
    assert second == "The cause is not established; what may be it, the likeliest first:"
    main(["diagnose", str(LOGS["oom-save-kernel-log"]), "--exit-code", "137"])
    _, second, *_ = capsys.readouterr().out.splitlines()
    assert second.startswith("The cause is established: host memory ran out while a checkpoint was")
