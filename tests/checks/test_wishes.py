"""The wishes family: requirements that leave the release open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from envguard.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

V100 = ["--gpu", "Tesla V100", "--driver", "535.104.05"]
A100 = ["--gpu", "A100-SXM4-80GB", "--driver", "550.54.15"]
RTX5090 = ["--gpu", "RTX 5090", "--driver", "575.57.08"]
H100 = ["--gpu", "H100", "--driver", "580.95.05"]


class Judge:
    """Checks a file of some text and keeps what was said."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys

    def __call__(
        self, text: str, machine: list[str], python: str = "3.11", name: str = "requirements.txt"
    ) -> dict[str, Any]:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        options = ["--platform", "linux-x86_64", "--python-version", python, "--format", "json"]
        self.capsys.readouterr()
        code = main(["check", str(path), *machine, *options])
        report: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        assert code == {"ok": 0, "warn": 0, "fail": 1, "unknown": 3}[report["verdict"]]
        return report


@pytest.fixture
def judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Judge:
    return Judge(tmp_path, capsys)


def found(report: dict[str, Any], code: str) -> dict[str, Any]:
    return next(finding for finding in report["findings"] if finding["code"] == code)


@pytest.mark.parametrize(
    ("text", "machine", "python", "verdict", "cause"),
    [
        ("flash-attn\n", V100, "3.11", "fail", "driver-too-old-for-cuda-major"),
        ("torch==2.4.1\nflash-attn\n", V100, "3.11", "fail", "arch-missing-old-gpu"),
        ("torch==2.4.1\nsglang\n", V100, "3.11", "fail", "arch-missing-old-gpu"),
        ("torch\nxformers==0.0.21\n", RTX5090, "3.10", "fail", "arch-missing-new-gpu"),
        ("torch>=2.1,<2.7\n", RTX5090, "3.11", "fail", "arch-missing-new-gpu"),
        ("torch>=2.8,<2.10\n", RTX5090, "3.11", "ok", None),
        ("vllm\n", H100, "3.12", "ok", None),
        (
            "torch==2.10.0+cu128\nflash-attn-4==4.0.0b5\n",
            A100,
            "3.12",
            "warn",
            "package-gpu-too-old",
        ),
        (
            "torch==2.10.0+cu128\nflash-attn-4==4.0.0b4\n",
            RTX5090,
            "3.12",
            "fail",
            "arch-missing-old-gpu",
        ),
        ("requests\nnumpy\n", A100, "3.11", "ok", None),
        ("transformers==4.44.0\n", A100, "3.11", "unknown", None),
        ("pytorch-lightning\n", A100, "3.11", "unknown", None),
        ("onnxruntime-gpu==1.19\n", A100, "3.11", "unknown", None),
    ],
)
def test_verdicts(
    judge: Judge, text: str, machine: list[str], python: str, verdict: str, cause: str | None
) -> None:
    report = judge(text, machine, python)
    assert (report["verdict"], report["root_cause"]) == (verdict, cause)


def test_what_is_taken_today_is_said_with_how_the_others_fare(judge: Judge) -> None:
    detail = found(judge("torch>=2.7\n", A100), "WHL014")["detail"]
    assert "leaves the release open" in detail
    assert "Of " in detail
    assert " run here, 2.7.0 to " in detail


def test_that_every_release_fits_is_said(judge: Judge) -> None:
    detail = found(judge("torch>=2.8,<2.10\n", RTX5090), "WHL014")["detail"]
    assert "Every release that torch>=2.8,<2.10 admits runs here." in detail


def test_what_is_taken_of_one_wish_does_not_bound_another(judge: Judge) -> None:
    report = judge("torch\ntorchvision\ntorchaudio\n", A100)
    assert [f for f in report["findings"] if f["code"] == "WHL015"] == []
    assert "releases that torch admits" in found(report, "WHL014")["detail"]


def test_none_of_many_names_its_range_and_reason(judge: Judge) -> None:
    finding = found(judge("torch==2.4.1\nflash-attn\n", V100), "WHL015")
    assert finding["title"] == "no release that flash-attn admits runs on this machine"
    assert "from 2.3.0 to " in finding["detail"]
    assert "needs compute capability 8.0" in finding["detail"]


def test_a_package_that_nothing_pins_warns_where_another_release_would_do(judge: Judge) -> None:
    report = judge("torch==2.1.2\ntransformers\n", A100)
    wrong = [
        f for f in report["findings"] if f["package"] == "transformers" and f["status"] == "fail"
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("partner", "status"), [("accelerate", "warn"), ("accelerate==1.15.0", "fail")]
)
def test_a_break_with_a_package_that_nothing_pins_warns(
    judge: Judge, partner: str, status: str
) -> None:
    report = judge(f"torch==2.1.2\ntransformers==4.37.2\n{partner}\n", A100)
    assert found(report, "BRK006")["status"] == status


def test_a_torch_that_no_line_names_is_said_to_be_brought_along(judge: Judge) -> None:
    report = judge("accelerate==1.0.0\n", H100)
    assert "No line names torch: accelerate needs it." in found(report, "WHL014")["detail"]


def test_source_trees_are_named(judge: Judge) -> None:
    report = judge("torch==2.4.1\ngit+https://index.example/helper.git@v1\n-e .\n", A100)
    title = found(report, "WHL016")["title"]
    assert title.endswith("line 2: git+https://index.example/helper.git@v1; line 3: -e .")


@pytest.mark.parametrize(
    ("bounds", "python", "code"),
    [
        ('requires-python = "==3.12.*"', "3.11", "LCK004"),
        (
            """requires-python = ">=3.9"\nsupported-markers = ["sys_platform == 'win32'"]""",
            "3.11",
            "LCK004",
        ),
        ('requires-python = "==3.12.*"', "3.12", "GPU002"),
    ],
)
def test_a_lock_for_another_environment_fails(
    judge: Judge, bounds: str, python: str, code: str
) -> None:
    text = f"""version = 1
{bounds}
[[package]]
name = "torch"
version = "2.6.0+cu126"
source = {{ registry = "https://download.pytorch.org/whl/cu126" }}
"""
    report = judge(text, RTX5090, python, "uv.lock")
    assert report["verdict"] == "fail"
    found(report, code)


@pytest.mark.parametrize(
    ("name", "text", "machine", "verdict", "cause"),
    [
        (
            "pyproject.toml",
            '[project]\nname = "x"\ndependencies = ["torch==2.1.2", "torchvision==0.16.2"]\n',
            RTX5090,
            "fail",
            "arch-missing-new-gpu",
        ),
        (
            "pyproject.toml",
            '[project]\nname = "x"\nrequires-python = ">=3.12"\ndependencies = ["torch"]\n',
            A100,
            "fail",
            "lock-for-other-python",
        ),
        (
            "pyproject.toml",
            '[project]\nname = "x"\ndynamic = ["dependencies"]\n',
            A100,
            "unknown",
            None,
        ),
        (
            "environment.yml",
            "dependencies:\n- pytorch=2.0.1\n- pytorch-cuda=11.8\n",
            RTX5090,
            "fail",
            "arch-missing-new-gpu",
        ),
        (
            "environment.yml",
            "dependencies:\n- pytorch=2.1.0\n- pytorch-cuda=12.1\n",
            A100,
            "ok",
            None,
        ),
        ("environment.yml", "dependencies:\n- pytorch=2.4.0\n", A100, "unknown", None),
        ("environment.yml", "dependencies:\n- pandas\n", A100, "ok", None),
        (
            "Dockerfile",
            "FROM nvcr.io/nvidia/pytorch:24.05-py3\nRUN pip install x\n",
            A100,
            "warn",
            "arch-inferred",
        ),
        (
            "Dockerfile",
            "FROM pytorch/pytorch:2.4.0-cuda12.4-cudnn9-devel\nRUN pip install vllm==0.6.3\n",
            RTX5090,
            "fail",
            "arch-missing-new-gpu",
        ),
        (
            "install.sh",
            "conda install pytorch==2.3.0 pytorch-cuda=12.1 -c pytorch\n",
            A100,
            "ok",
            None,
        ),
    ],
)
def test_verdicts_on_other_files(
    judge: Judge, name: str, text: str, machine: list[str], verdict: str, cause: str | None
) -> None:
    report = judge(text, machine, "3.11", name)
    assert (report["verdict"], report["root_cause"]) == (verdict, cause)


def test_a_lock_whose_torch_is_for_other_systems_is_not_judged(judge: Judge) -> None:
    text = """version = 1
requires-python = ">=3.9"
[[package]]
name = "trainer"
version = "1"
source = { virtual = "." }
dependencies = [{ name = "torch", marker = "sys_platform == 'win32'" }]
[[package]]
name = "torch"
version = "2.6.0"
source = { registry = "https://index.example/simple" }
"""
    report = judge(text, RTX5090, "3.11", "uv.lock")
    assert report["verdict"] == "unknown"
    assert "none of them for linux-x86_64" in found(report, "WHL017")["detail"]
