"""Is torch there, which build is it, and for whose hardware."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from envguard.checks.wheel import check_accelerator, check_torch_present
from envguard.facts.environment import BuildOrigin, Environment, TorchBuild
from envguard.facts.gaps import Gap, GapReason
from envguard.ingest.pins import add_pins
from envguard.matrix.complete import complete_facts
from tests.checks.sample import (
    H100,
    LINUX,
    environment,
    facts,
    machine,
    run,
    said,
    tables,
    torch_build,
)

if TYPE_CHECKING:
    from envguard.facts.facts import Facts


def pinned(version: str) -> Environment:
    build = replace(
        torch_build(version), origin=BuildOrigin.PIN, accelerator=None, cuda=None, location=None
    )
    return environment(build)


@pytest.mark.parametrize("reason", ["crashed", "timed-out", "unreadable", "forbidden"])
def test_an_interpreter_that_does_not_answer_is_not_fine(reason: str) -> None:
    gap = Gap("environment.interpreter", GapReason(reason), "interpreter", "python: it hangs")
    (finding,) = run(check_torch_present, facts(env=Environment(), gaps=(gap,)))
    assert (finding.code, finding.cause) == ("WHL011", "environment-not-read")
    assert finding.status.value == "unknown"
    assert finding.detail == "python: it hangs. What it holds is not known."


def test_folders_that_may_not_be_read_can_hold_torch() -> None:
    gap = Gap("environment.distributions", GapReason.FORBIDDEN, "interpreter", "site: forbidden")
    empty = replace(environment(), torch=None)
    assert said(check_torch_present, facts(env=empty, gaps=(gap,))) == [
        ("WHL011", "environment-not-read", "unknown")
    ]
    assert said(check_torch_present, facts(gaps=(gap,))) == []  # torch was found all the same


@pytest.mark.parametrize(
    ("version", "vendor"), [("2.9.0+rocm6.4", "AMD GPUs (ROCm)"), ("2.9.0+xpu", "Intel GPUs (XPU)")]
)
def test_a_build_for_another_vendor_fails_beside_nvidia_gpus_only(
    version: str, vendor: str
) -> None:
    env = environment(torch_build(version))
    (finding,) = run(check_accelerator, facts(machine(H100), env))
    assert (finding.code, finding.status.value) == ("WHL003", "fail")
    assert f"is a build for {vendor} and uses no NVIDIA GPU: GPU 0" in finding.title
    (finding,) = run(check_accelerator, facts(machine(), env))
    assert finding.status.value == "skip"
    assert finding.title == f"torch {version} is a build for {vendor}"


@pytest.mark.parametrize(
    ("version", "detail", "remedy"),
    [
        ("2.7.1+git1", "Its label, git1, names no CUDA release.", "let envguard read"),
        ("2.99.0", "The tables know torch 1.0.0 to ", "torch==2.99.0+cu..."),
        ("1.8.2", "The tables know torch 1.0.0 to ", "torch==1.8.2+cu..."),
    ],
)
def test_why_a_build_is_not_known(version: str, detail: str, remedy: str) -> None:
    (finding,) = run(check_accelerator, facts(env=pinned(version)))
    assert finding.code == "WHL004"
    assert finding.detail.startswith(detail)
    assert finding.remedy is not None
    assert remedy in finding.remedy.text


@pytest.mark.parametrize(
    ("document", "remedy"),
    [
        ("requirements.txt", "pin it in the file, or lock it (`envguard lock -r FILE`)"),
        (None, "let envguard read the installed one: --python PATH"),
    ],
)
def test_a_torch_without_a_version_is_pinned_or_read(document: str | None, remedy: str) -> None:
    env = Environment(torch=TorchBuild(None), document=document)
    (finding,) = run(check_accelerator, facts(env=env))
    assert finding.code == "WHL004"
    assert finding.remedy is not None
    assert finding.remedy.text.startswith(remedy)


def test_without_a_platform_what_each_gets_from_pypi_is_said() -> None:
    base = machine(H100)
    nowhere = replace(base, host=replace(base.host, platform=None))
    (finding,) = run(check_accelerator, facts(nowhere, pinned("2.7.1")))
    assert finding.detail == (
        "PyPI serves another build for each platform: cu126 on linux-x86_64, cpu on linux-aarch64."
    )
    assert finding.remedy is not None
    assert finding.remedy.text == "state the platform: --platform linux-x86_64"
    assert base.host.platform == LINUX


def completed(*pins: str) -> Facts:
    return complete_facts(facts(env=add_pins(None, pins)), tables())


@pytest.mark.parametrize(
    ("pins", "version", "cuda"),
    [
        (("torchvision==0.21.0",), "2.6.0", "12.4"),  # PyPI's default build
        (("torchvision==0.21.0+cu118", "torchaudio==2.6.0"), "2.6.0+cu118", "11.8"),
        (("vllm==0.8.5",), "2.6.0", "12.4"),
        (("vllm==0.8.5+precompiled",), "2.6.0", "12.4"),  # a label of its own
    ],
)
def test_a_pin_that_requires_one_torch_brings_it_along(
    pins: tuple[str, ...], version: str, cuda: str
) -> None:
    found = completed(*pins)
    torch = found.environment.torch if found.environment else None
    assert torch is not None
    assert (str(torch.version), str(torch.cuda), torch.origin) == (
        version,
        cuda,
        BuildOrigin.REQUIRED,
    )
    assert said(check_torch_present, found) == [("WHL012", "torch-required-by-pins", "ok")]


@pytest.mark.parametrize(
    "pins", [("deepspeed==0.17.2",), ("torchvision==99.0",), ("peft==0.17.0",)]
)
def test_pins_that_leave_torch_open_bring_none_that_is_known(pins: tuple[str, ...]) -> None:
    (finding,) = run(check_torch_present, completed(*pins))
    assert (finding.code, finding.status.value) == ("WHL001", "ok")
    assert finding.title == "torch is not among the pins: there is nothing to judge"


@pytest.mark.parametrize(
    "pins",
    [
        ("torchvision==0.21.0", "torchaudio==2.8.0"),
        ("torchvision==0.21.0+cu124", "vllm==0.10.0", "xformers==0.0.28.post3"),
    ],
)
def test_pins_that_require_different_torches_fit_no_installation(pins: tuple[str, ...]) -> None:
    (finding,) = run(check_torch_present, completed(*pins))
    assert (finding.code, finding.status.value) == ("WHL013", "fail")
    assert len(finding.evidence) == len(pins)


def test_what_is_installed_brings_nothing_along() -> None:
    """An environment that was read lists everything: its torch is missing."""
    read = replace(add_pins(None, ["torchvision==0.21.0"]), is_open=False)
    found = complete_facts(facts(env=read), tables())
    assert found.environment is not None
    assert found.environment.torch is None
    assert said(check_torch_present, found) == [("WHL001", "nothing-to-judge", "ok")]
