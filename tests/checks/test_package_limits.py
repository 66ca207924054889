from __future__ import annotations

import pytest

from envguard.checks.companions import check_capability, check_foreign, check_python
from envguard.facts.environment import BuildOrigin
from tests.checks.beside import facts_of, findings, said


def test_the_python_of_a_pin_has_to_be_admitted() -> None:
    pins = facts_of(
        "torch==2.9.0",
        "torchvision==0.24.0",
        python="3.9",
        origin=BuildOrigin.PIN,
        executable=None,
    )
    assert said(check_python, pins) == [("PKG003", "python-not-supported", "fail")]
    installed = facts_of("torch==2.9.0", "torchvision==0.24.0", python="3.9.18")
    assert said(check_python, installed) == [("PKG003", "python-not-supported", "warn")]
    assert said(check_python, facts_of("torch==2.9.0", "torchvision==0.24.0", python="3.12")) == []


@pytest.mark.parametrize("python", ["3.14", "3.14.0", "3.14.2"])
def test_one_excluded_patch_does_not_exclude_a_minor(python: str) -> None:
    facts = facts_of("torch==2.12.0", "torchvision==0.27.0", python=python)
    assert said(check_python, facts) == []


def test_the_excluded_patch_itself_is_named() -> None:
    facts = facts_of("torch==2.12.0", "torchvision==0.27.0", python="3.14.1")
    assert said(check_python, facts) == [("PKG003", "python-not-supported", "warn")]


def test_a_prerelease_of_python() -> None:
    facts = facts_of("torch==2.2.1", python="3.11.0rc1")
    assert said(check_python, facts) == [("PKG006", "prerelease-python", "warn")]


@pytest.mark.parametrize(
    ("package", "gpus", "expected"),
    [
        ("flash-attn==2.7.4.post1", ("7.0",), [("fail", "arch-missing-old-gpu")]),
        ("flash-attn==2.7.4.post1", ("7.5", "8.0"), [("warn", "arch-missing-old-gpu")]),
        ("flash-attn==2.7.4.post1", ("8.0",), []),
        ("vllm==0.22.0", ("7.0",), [("fail", "arch-missing-old-gpu")]),
        ("vllm==0.14.0", ("7.0",), []),
        ("bitsandbytes==0.49.0", ("7.0",), [("warn", "package-gpu-too-old")]),  # LLM.int8() alone
        ("triton==3.4.0", ("7.5",), [("skip", "package-gpu-too-old")]),
    ],
)
def test_kernels_need_a_capability(
    package: str, gpus: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    found = findings(check_capability, facts_of("torch==2.6.0", package, gpus=gpus))
    assert [(f.status.value, f.cause) for f in found] == expected


def test_the_old_gpus_are_named() -> None:
    facts = facts_of("torch==2.6.0", "flash-attn==2.7.4.post1", gpus=("8.0", "7.5", "7.0"))
    (finding,) = findings(check_capability, facts)
    assert finding.gpus == (1, 2)


def test_apex_of_pypi_is_another_project() -> None:
    facts = facts_of("torch==2.6.0", "apex==0.9.10.dev0")
    assert said(check_foreign, facts) == [("PKG008", "foreign-distribution", "warn")]
    assert said(check_foreign, facts_of("torch==2.6.0", "apex==0.1")) == []
