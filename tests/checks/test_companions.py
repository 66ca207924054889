"""None"""

from __future__ import annotations

import pytest

from envguard.checks.companions import (
    check_capability,
    check_features,
    check_foreign,
    check_python,
    check_requirements,
    check_triton,
)
from envguard.facts.environment import BuildOrigin
from tests.checks.beside import facts_of, findings, said

UNMET = ("PKG001", "requirement-not-met", "warn")


@pytest.mark.parametrize(
    ("packages", "is_met"),
    [
        (("torch==2.8.0", "accelerate==0.32.0", "numpy==2.0.1"), False),
        (("torch==2.8.0", "accelerate==1.12.0", "numpy==2.0.1"), True),
        (("torch==1.8.0", "accelerate==1.0.0"), False),
        (("torch==2.7.1", "trl==0.25.1", "transformers==4.40.2"), False),
        (("torch==2.7.1", "trl==0.25.1", "transformers==4.57.6", "accelerate==1.10.0"), True),
        (("torch==2.5.1", "vllm==0.7.3", "torchvision==0.19.0"), False),
        (("torch==2.2.0", "liger-kernel==0.5.0"), True),
        (("torch==2.0.1", "liger-kernel==0.5.0"), False),
        (("torch==2.6.0", "deepspeed==0.16.0", "pydantic==1.10.0"), False),
    ],
)
def test_declared_requirements(packages: tuple[str, ...], *, is_met: bool) -> None:
    found = said(check_requirements, facts_of(*packages))
    assert found == ([] if is_met else [UNMET])


def test_a_compiled_packages_torch_is_left_to_the_pairing_family() -> None:
    assert said(check_requirements, facts_of("torch==2.8.0", "torchvision==0.21.0")) == []


def test_the_row_of_the_minor_stands_for_a_patch() -> None:
    (finding,) = findings(check_requirements, facts_of("transformers==4.42.1", "numpy==2.0.0"))
    assert finding.detail.startswith("The metadata of 4.42.4 say so")


def test_releases_between_two_months_are_not_guessed() -> None:
    facts = facts_of("torch==2.8.0", "unsloth==2025.6.1", "transformers==4.0.0")
    assert said(check_requirements, facts) == []


def test_several_unmet_requirements_are_one_finding() -> None:
    facts = facts_of("torch==2.7.1", "trl==0.25.1", "transformers==4.40.2", "accelerate==0.30.0")
    (finding,) = findings(check_requirements, facts)
    assert "transformers>=4.56.1" in finding.title
    assert "accelerate>=1.4.0" in finding.title


@pytest.mark.parametrize(
    ("torch", "triton", "is_right"),
    [
        ("2.6.0+cu124", "3.2.0", True),
        ("2.6.0+cu124", "3.3.1", False),
        ("2.14.1", "3.8.1", True),  # any patch
        ("2.14.1", "3.9.0", False),
        ("2.6.0+cpu", "3.3.1", True),  # a CPU build requires none
    ],
)
def test_triton_is_torchs_own(torch: str, triton: str, *, is_right: bool) -> None:
    found = said(check_triton, facts_of(f"torch=={torch}", f"triton=={triton}"))
    assert found == ([] if is_right else [("PKG002", "triton-for-other-torch", "warn")])


@pytest.mark.parametrize(
    ("packages", "answer"),
    [
        (
            ("torch==2.3.1", "transformers==5.6.2"),
            ("PKG004", "torch-too-old-for-package", "fail"),
        ),
        (("torch==2.4.0", "transformers==5.6.2"), None),
        (
            ("torch==2.4.0", "transformers==5.6.2", "bitsandbytes==0.45.0"),
            ("PKG004", "feature-needs-newer-package", "warn"),
        ),
        (
            ("torch==2.4.0", "transformers==4.45.2", "accelerate==0.20.0"),
            ("PKG004", "feature-needs-newer-package", "warn"),
        ),
        (
            ("torch==2.13.0+cu126", "sglang==0.5.20"),
            ("PKG004", "feature-needs-newer-package", "warn"),
        ),
    ],
)
def test_features_need_other_packages(
    packages: tuple[str, ...], answer: tuple[str, str, str] | None
) -> None:
    assert said(check_features, facts_of(*packages)) == ([answer] if answer else [])


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
