"""``envguard smoke``: exit code, stdout and stderr."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import jsonschema
import pytest

from envguard.cli.main import main
from tests.smoke.fake import FAKE_TORCH, MATRIX
from tests.smoke.test_smoke_report import SCHEMA
from tests.stubs.machine import A100, T4, StubMachine


@pytest.fixture(autouse=True)
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(FAKE_TORCH))


def test_a_torch_that_works_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["smoke", "--stages", "reference"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("envguard smoke: passed\n")
    assert "\nok    backward " in shown.out
    assert shown.err == ""


def test_a_torch_that_fails_exits_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_TORCH_FAULTS", "backward=exit")
    assert main(["smoke", "--stages", "backward"]) == 1
    assert "\nFAIL  backward " in capsys.readouterr().out


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["smoke", "--stages", "forward", "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, SCHEMA)
    assert code == 0
    assert document["command"] == "smoke"
    assert document["matrix"]["version"] == MATRIX.manifest.data_version


def test_a_limit_can_be_given(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_TORCH_FAULTS", "linear=hang")
    words = ["smoke", "--stages", "forward", "--timeout", "2"]
    assert main(words) == 1
    assert "SMK003" in capsys.readouterr().out


@pytest.mark.skipif(os.name != "posix", reason="/bin/false")
def test_what_is_no_python_exits_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["smoke", "--python", "/bin/false"]) == 3
    assert "SMK005" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--device", "gpu"], "--device: 'gpu' is none of auto, cpu, cuda:N"),
        (["--stages", "fly"], "no smoke stage is called 'fly'"),
        (["--python", "/nowhere/python"], "--python: '/nowhere/python' does not exist"),
    ],
)
def test_wrong_options_exit_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["smoke", *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err


def test_the_stages_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["smoke", "--list"]) == 0
    assert "\noptimizer-step  AdamW moves every parameter\n" in capsys.readouterr().out


def test_the_running_interpreter_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    main(["smoke", "--stages", "import", "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    assert document["facts"]["environment"]["interpreter"]["executable"] == sys.executable
    assert Path(document["stages"][0]["details"]["path"]) == FAKE_TORCH


def test_the_gpu_under_test_is_named_by_its_nvml_index(
    no_driver: StubMachine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no_driver.nvml(A100, T4)
    for name, value in no_driver.environ.items():
        if name != "PATH":
            monkeypatch.setenv(name, value)
    # The CUDA ordinal 0 is the second for NVML.
    monkeypatch.setenv("FAKE_TORCH_GPU", "12.8,7.5,sm_75,99999999-8888-7777-6666-555555555555")
    words = ["smoke", "--stages", "forward", "--format", "json"]
    assert main(words) == 0
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["gpus"] == [1]
