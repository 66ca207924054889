from __future__ import annotations

import pytest
from packaging.version import Version

from envguard.checks.prebuilt import (
    check_prebuilt_wheels,
    check_source_builds,
    parse_wheel_label,
)
from envguard.facts.environment import BuildOrigin, Distribution
from tests.checks.beside import distribution, facts_of, findings, said

PLACE = "https://github.com/Dao-AILab/flash-attention/releases/download"
WHEEL = "flash_attn-2.7.4.post1%2Bcu12torch2.6cxx11abiFALSE-cp312-cp312-linux_x86_64.whl"


def flash(label: str) -> Distribution:
    return distribution(f"flash-attn==2.7.4.post1+{label}")


@pytest.mark.parametrize(
    ("torch", "label", "causes"),
    [
        ("2.6.0+cu124", "cu12torch2.6cxx11abiFALSE", []),
        ("2.6.0", "cu12torch2.6cxx11abiFALSE", []),
        ("2.6.0+cu126", "cu12torch2.6cxx11abiFALSE", ["abi-cxx11-flag"]),
        ("2.6.0+cu126", "cu12torch2.6cxx11abiTRUE", []),
        ("2.6.0+cu124", "cu12torch2.6cxx11abiTRUE", ["abi-cxx11-flag"]),
        ("2.5.1+cu124", "cu12torch2.5cxx11abiTRUE", ["abi-cxx11-flag"]),
        ("2.7.1+cu126", "cu12torch2.6cxx11abiFALSE", ["abi-torch-version", "abi-cxx11-flag"]),
        ("2.8.0+cu128", "cu12torch2.7cxx11abiTRUE", ["abi-torch-version"]),
        ("2.9.1+cu130", "cu12torch2.9cxx11abiTRUE", ["cudart-major-mismatch"]),
        ("2.6.0+cu118", "cu11torch2.6cxx11abiFALSE", []),
        ("2.4.0+cu121", "cu122torch2.4cxx11abiFALSE", []),  # labels of 2.3.6 to 2.6.0
    ],
)
def test_labels_against_torch(torch: str, label: str, causes: list[str]) -> None:
    found = findings(check_prebuilt_wheels, facts_of(f"torch=={torch}", flash(label)))
    assert [f.cause for f in found] == causes
    assert all(f.status.value == "fail" for f in found)


def test_the_same_label_in_an_address_is_read() -> None:
    pinned = distribution("flash-attn==2.7.4.post1", url=f"{PLACE}/v2.7.4.post1/{WHEEL}")
    facts = facts_of("torch==2.6.0+cu126", pinned)
    assert said(check_prebuilt_wheels, facts) == [("ABI007", "abi-cxx11-flag", "fail")]


def test_a_wheel_for_another_python() -> None:
    pinned = distribution("flash-attn==2.7.4.post1", url=f"{PLACE}/v2.7.4.post1/{WHEEL}")
    facts = facts_of("torch==2.6.0+cu124", pinned, python="3.11.9")
    assert said(check_prebuilt_wheels, facts) == [("ABI008", "wheel-for-other-python", "fail")]


def test_the_remedy_names_the_wheel_that_fits() -> None:
    facts = facts_of("torch==2.6.0+cu126", flash("cu12torch2.6cxx11abiFALSE"))
    (finding,) = findings(check_prebuilt_wheels, facts)
    assert finding.remedy is not None
    assert "cu12torch2.6cxx11abiTRUE and cp312" in finding.remedy.text


def test_an_unknown_abi_is_not_compared() -> None:
    facts = facts_of("torch==2.6.0", flash("cu12torch2.6cxx11abiTRUE"), cuda="12.9")
    assert said(check_prebuilt_wheels, facts) == []


@pytest.mark.parametrize(
    ("word", "url", "expected"),
    [
        ("mamba-ssm==2.2.4+cu12torch2.5cxx11abifalse", None, (12, "2.5", False)),
        ("gptqmodel==1.9.0+cu124torch2.5", None, (12, "2.5", None)),
        ("transformer-engine-torch==2.9.0+cu13torch2.9.1cxx11abitrue", None, (13, "2.9", True)),
        ("vllm==0.21.0+cu129", None, None),
        ("flash-attn==2.8.3", "https://files.example/flash_attn-2.8.3.tar.gz", None),
    ],
)
def test_labels_are_read(
    word: str, url: str | None, expected: tuple[int, str, bool | None] | None
) -> None:
    label = parse_wheel_label(distribution(word, url=url))
    if expected is None:
        assert label is None
    else:
        assert label is not None
        assert (label.cuda_major, label.torch, label.cxx11_abi) == (
            expected[0],
            Version(expected[1]),
            expected[2],
        )


def test_a_release_without_wheels_for_this_torch_is_a_warning() -> None:
    facts = facts_of("torch==2.11.0", "flash-attn==2.8.3")
    assert said(check_source_builds, facts) == [("ABI010", "abi-torch-version", "warn")]


def test_a_release_without_wheels_for_this_cuda_is_a_warning() -> None:
    facts = facts_of("torch==2.8.0+cu118", "flash-attn==2.8.3", cuda="11.8")
    assert said(check_source_builds, facts) == [("ABI010", "cudart-major-mismatch", "warn")]


@pytest.mark.parametrize("torch", ["2.8.0+cu128", "2.9.1+cu128", "2.9.0+cu130"])
def test_wheels_that_exist_or_were_seen_raise_no_warning(torch: str) -> None:
    assert said(check_source_builds, facts_of(f"torch=={torch}", "flash-attn==2.8.3")) == []


def test_a_pinned_source_archive_needs_torch_while_it_builds() -> None:
    facts = facts_of(
        "torch==2.8.0+cu128", "flash-attn==2.8.3", origin=BuildOrigin.PIN, executable=None
    )
    assert said(check_source_builds, facts) == [("PKG007", "build-isolation", "warn")]


def test_a_pinned_wheel_does_not() -> None:
    pinned = distribution("flash-attn==2.7.4.post1", url=f"{PLACE}/v2.7.4.post1/{WHEEL}")
    facts = facts_of("torch==2.6.0+cu124", pinned, origin=BuildOrigin.PIN, executable=None)
    assert said(check_source_builds, facts) == []
