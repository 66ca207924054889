from __future__ import annotations

import pytest

from envguard.checks.pairing import check_built_for_torch
from envguard.facts.environment import Manager
from tests.checks.beside import distribution, facts_of, findings, said

VISION = ("ABI001", "vision-torch-mismatch")
OTHER = ("ABI002", "abi-torch-version")


@pytest.mark.parametrize(
    ("torch", "package", "answer"),
    [
        ("2.8.0+cu128", "torchvision==0.21.0", (*VISION, "fail")),
        ("2.8.0+cu128", "torchvision==0.23.0", None),
        ("2.5.1+cu124", "torchvision==0.20.0", (*VISION, "warn")),  # another patch
        ("2.15.0", "torchvision==0.29.1", None),  # stable ABI, any later torch
        ("2.15.0", "torchvision==0.29.0", (*VISION, "warn")),  # stable ABI, exact requirement
        ("2.13.0", "torchvision==0.29.1", (*VISION, "fail")),  # older than it was built for
        ("2.9.1+cu128", "torchaudio==2.8.0", (*OTHER, "fail")),
        ("2.14.1", "torchaudio==2.11.0", None),
        ("2.8.0+cu128", "xformers==0.0.31.post1", (*OTHER, "fail")),
        ("2.13.0", "xformers==0.0.35", None),
        ("2.12.0", "vllm==0.22.0", (*OTHER, "fail")),
        ("2.15.0", "vllm==0.28.0", (*OTHER, "warn")),  # stable ABI, exact requirement
        ("2.6.0", "torchcodec==0.5", (*OTHER, "fail")),
        ("2.7.1", "torchcodec==0.5", None),
        ("2.9.1", "torchao==0.14.1", (*OTHER, "warn")),  # goes on in Python
        ("2.9.0", "torchao==0.14.1", None),
        ("2.9.0", "torchao==0.12.0", (*OTHER, "fail")),  # ends the process
        ("2.4.0+cu121", "torchtext==0.18.0", (*OTHER, "warn")),  # inferred
        ("2.9.0", "accelerate==1.10.0", None),
        ("2.1.0", "bitsandbytes==0.48.0", None),  # no link to libtorch
    ],
)
def test_compiled_packages_beside_torch(
    torch: str, package: str, answer: tuple[str, str, str] | None
) -> None:
    found = said(check_built_for_torch, facts_of(f"torch=={torch}", package))
    assert found == ([answer] if answer else [])


def test_the_remedy_is_the_release_for_this_torch_from_its_index() -> None:
    facts = facts_of("torch==2.8.0+cu128", "torchvision==0.21.0", manager=Manager.UV)
    (finding,) = findings(check_built_for_torch, facts)
    assert finding.remedy is not None
    assert finding.remedy.command == (
        *("uv", "pip", "install", "torchvision==0.23.0+cu128"),
        *("--index-url", "https://index.example/cu128"),
    )
    assert finding.source is not None
    assert "torchvision-0.21.0-" in finding.source.url


def test_pypi_builds_are_mended_from_the_default_index() -> None:
    (finding,) = findings(check_built_for_torch, facts_of("torch==2.8.0", "torchvision==0.21.0"))
    assert finding.remedy is not None
    assert finding.remedy.command[-1] == "torchvision==0.23.0"


def test_a_package_without_a_release_for_this_torch_says_what_it_wants() -> None:
    (finding,) = findings(check_built_for_torch, facts_of("torch==2.12.0", "vllm==0.6.3.post1"))
    assert finding.remedy is not None
    assert finding.remedy.command == ()
    assert "torch==2.4.0" in finding.remedy.text


def test_the_torch_that_is_imported_counts_and_not_the_one_in_the_metadata() -> None:
    facts = facts_of("torch==2.6.0+cu124", "torchvision==0.23.0")
    assert said(check_built_for_torch, facts) == [(*VISION, "fail")]


@pytest.mark.parametrize("torch", ["2.9.0.dev20250801+cu128", "2.6.0a0+ecf3bae40a.nv25.1"])
def test_nightlies_and_vendors_builds_are_not_judged(torch: str) -> None:
    assert said(check_built_for_torch, facts_of(f"torch=={torch}", "torchvision==0.21.0")) == []


def test_a_release_that_is_not_recorded_is_not_judged() -> None:
    facts = facts_of("torch==2.8.0+cu128", "torchvision==0.99.0", "vllm==99.0")
    assert said(check_built_for_torch, facts) == []


def test_other_vendors_builds_are_not_judged() -> None:
    facts = facts_of("torch==2.8.0+rocm6.4", "torchvision==0.21.0")
    assert said(check_built_for_torch, facts) == []


def test_a_finding_points_at_the_line_of_a_lockfile() -> None:
    vision = distribution("torchvision==0.21.0", line=42)
    (finding,) = findings(check_built_for_torch, facts_of("torch==2.8.0+cu128", vision))
    assert finding.line == 42
