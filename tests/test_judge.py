"""What a whole check recommends, and what it says where nothing serves the machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.checks.context import CheckOptions
from envguard.facts.environment import Interpreter
from envguard.facts.facts import Facts
from envguard.facts.machine import Host, Machine, Platform
from envguard.ingest.stated import parse_stated, stated_facts
from envguard.ingest.stated_pins import add_pins
from envguard.judge import judge
from envguard.matrix.loader import Matrix

if TYPE_CHECKING:
    from envguard.facts.findings import Finding
    from envguard.facts.report import Report

INDEX = "https://index.example/whl/{backend}"


def judged(pins: tuple[str, ...], *, exact: bool = False, **stated: str | list[str]) -> Report:
    facts, _ = stated_facts(parse_stated(**stated))  # type: ignore[arg-type]  # texts, by option
    if pins:
        facts = replace(facts, environment=add_pins(facts.environment, pins))
    return judge(facts, Matrix.load(), CheckOptions(exact_driver=exact), torch_index=INDEX)


def failing(report: Report) -> Finding:
    (finding,) = [f for f in report.findings if f.status.value == "fail"]
    return finding


def test_an_old_release_is_named_where_only_that_has_code_for_a_gpu() -> None:
    report = judged(
        ("torch==2.0.1+cu117",), gpu=["Tesla K40m"], driver="470.256.02", platform="linux-x86_64"
    )
    assert report.recommended is not None
    assert (report.recommended.torch, report.recommended.backend) == ("1.3.0", "cu101")
    assert "torch==1.3.0" in report.recommended.command  # its wheels carry no label


def test_companions_that_carry_no_label_are_named_without_one() -> None:
    report = judged(
        ("torch==1.9.0+cu102", "torchvision==0.10.0+cu102", "torchaudio==0.9.0"),
        gpu=["NVIDIA A100-SXM4-80GB"],
        driver="470.57.02",
        platform="linux-x86_64",
        python_version="3.6",
    )
    assert report.recommended is not None
    command = report.recommended.command
    release, label = report.recommended.torch, report.recommended.backend
    assert (release, label) == ("1.9.0", "cu111")
    assert {"torchvision==0.10.0+cu111", "torchaudio==0.9.0"} <= set(command)


def test_that_no_build_serves_a_gpu_is_said() -> None:
    report = judged(
        ("torch==2.0.1+cu117",),
        gpu=["Tesla K40m"],
        driver="470.256.02",
        platform="linux-x86_64",
        python_version="3.11",
    )
    remedy = failing(report).remedy
    assert report.recommended is None
    assert remedy is not None
    assert remedy.text == "no torch build that the tables know serves this machine as it is"


def test_where_only_the_exact_grade_will_do_a_build_of_that_grade_is_named() -> None:
    report = judged(
        ("torch==2.9.1+cu128",),
        exact=True,
        gpu=["H100"],
        driver="535.104.05",
        platform="linux-x86_64",
    )
    assert report.root_cause == "minor-compat-feature-gap"
    assert report.recommended is not None
    assert (report.recommended.torch, report.recommended.backend) == ("2.7.1", "cu118")
    remedy = failing(report).remedy
    assert remedy is not None
    assert remedy.text == "install torch 2.7.1 from cu118; or: install driver 570.26 or newer"


def test_old_driver_names_the_build_and_the_driver_that_would_do() -> None:
    report = judged(("torch==2.9.1+cu130",), gpu=["H100"], driver="570.26", platform="linux-x86_64")
    remedy = failing(report).remedy
    assert remedy is not None
    assert remedy.text == "install torch 2.9.1 from cu128; or: install driver 580 or newer"


def test_rocm_build_beside_an_nvidia_gpu_is_replaced() -> None:
    report = judged(
        ("torch==2.9.1+rocm6.4", "torchvision==0.24.1+rocm6.4"),
        gpu=["H100"],
        driver="580.65.06",
        platform="linux-x86_64",
    )
    assert report.root_cause == "other-accelerator"
    assert report.recommended is not None
    assert report.recommended.command[4:6] == ("torch==2.9.1+cu130", "torchvision==0.24.1+cu130")


@pytest.mark.parametrize(
    ("platform", "floor"), [("linux-x86_64", "580"), ("windows-x86_64", "580")]
)
def test_the_driver_to_have_is_named_where_none_is_known(platform: str, floor: str) -> None:
    report = judged((), gpu=["H100"], platform=platform)
    assert report.recommended is not None
    assert report.recommended.why.endswith(f"it has to be at least {floor}")


def test_wheels_of_macos_are_named_without_a_label() -> None:
    mac = Machine(host=Host(platform=Platform.parse("macos-arm64")), gpus=())
    environment = add_pins(None, ["torch==2.1.0", "torchvision==0.16.0"])
    python = Interpreter(version=Version("3.13"))
    facts = Facts(mac, replace(environment, interpreter=python))
    report = judge(facts, Matrix.load(), CheckOptions(), torch_index=INDEX)
    assert report.root_cause == "no-wheel-for-python"
    assert report.recommended is not None
    assert report.recommended.command[:4] == ("python", "-m", "pip", "install")
    assert all("+" not in word for word in report.recommended.command)


def test_another_torch_is_no_cure_for_a_package_that_needs_a_newer_gpu() -> None:
    report = judged(
        ("torch==2.8.0+cu128", "flash-attn==2.8.3"),
        gpu=["Tesla T4"],
        driver="580.65.06",
        platform="linux-x86_64",
    )
    assert report.root_cause == "arch-missing-old-gpu"
    assert report.recommended is None
    remedy = failing(report).remedy
    assert remedy is not None
    assert remedy.text == "do without flash-attn on this GPU"
