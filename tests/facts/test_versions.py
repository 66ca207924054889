"""Versions and labels: they compare as their makers mean them, and print as they were read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from envguard.facts.versions import (
    CPU,
    Backend,
    CodeKind,
    CodeTarget,
    ComputeCapability,
    CudaVersion,
    DriverVersion,
)
from tests.facts import strategies

KINDS: list[Any] = [DriverVersion, CudaVersion, ComputeCapability, CodeTarget, Backend]


def test_a_driver_keeps_its_text_and_compares_its_numbers() -> None:
    driver = DriverVersion.parse(" 550.144.03\n")
    assert str(driver) == "550.144.03"
    assert driver == DriverVersion.parse("550.144.3")
    assert driver.branch == 550


def test_drivers_are_in_order_of_their_numbers() -> None:
    texts = ["390.157", "470.9", "470.57.02", "470.256.02", "525.60.13", "580", "580.65.06"]
    drivers = [DriverVersion.parse(text) for text in texts]
    assert sorted(drivers, reverse=True)[::-1] == drivers


@pytest.mark.parametrize(
    "text",
    [
        "",
        "N/A",
        "535.x",
        "535.",
        ".535",
        "5",
        "0535.1",
        "-535",
        "535.1.2.3.4",
        "\uff15\uff13\uff15",
        "1e5",
    ],
)
def test_what_is_no_driver_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a driver version such as 535\.104\.05"):
        DriverVersion.parse(text)


def test_cuda_12_10_is_above_12_9_and_not_12_1() -> None:
    assert CudaVersion.parse("12.10") > CudaVersion.parse("12.9")
    assert CudaVersion.parse("12.10") != CudaVersion.parse("12.1")
    assert str(CudaVersion.parse("12.10")) == "12.10"


def test_cuda_patch_levels_are_dropped() -> None:
    assert CudaVersion.parse("12.8.1") == CudaVersion(12, 8)
    assert CudaVersion.parse("11.8.0.1") == CudaVersion(11, 8)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (9020, "9.2"),
        (10010, "10.1"),
        (11080, "11.8"),
        (12080, "12.8"),
        (12100, "12.10"),
        (13030, "13.3"),
    ],
)
def test_the_apis_number_is_decoded(number: int, expected: str) -> None:
    assert str(CudaVersion.from_api(number)) == expected


@pytest.mark.parametrize(
    "text", ["", "12", "12.", "N/A", "v12.4", "12.4rc1", "ERR!", "1234.1", "\uff11\uff12.\uff14"]
)
def test_what_is_no_cuda_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a CUDA version such as 12\.8"):
        CudaVersion.parse(text)


def test_capability_10_0_is_above_9_0() -> None:
    assert ComputeCapability.parse("10.0") > ComputeCapability.parse("9.0")
    assert ComputeCapability.parse("12.1").digits == "121"


@pytest.mark.parametrize("text", ["", "9", "9.10", "sm_90", "-1.0", "100.0", "9.\uff10"])
def test_what_is_no_capability_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a compute capability such as 9\.0"):
        ComputeCapability.parse(text)


@pytest.mark.parametrize(
    ("text", "kind", "capability", "suffix"),
    [
        ("sm_75", CodeKind.CUBIN, ComputeCapability(7, 5), ""),
        ("sm_90a", CodeKind.CUBIN, ComputeCapability(9, 0), "a"),
        ("sm_100f", CodeKind.CUBIN, ComputeCapability(10, 0), "f"),
        ("compute_121", CodeKind.PTX, ComputeCapability(12, 1), ""),
    ],
)
def test_code_targets_are_taken_apart(
    text: str, kind: CodeKind, capability: ComputeCapability, suffix: str
) -> None:
    target = CodeTarget.parse(text)
    assert (target.kind, target.capability, target.suffix) == (kind, capability, suffix)
    assert str(target) == text


@pytest.mark.parametrize("text", ["", "sm_9", "sm_1234", "sm_90b", "gfx942", "sm90", "SM_90"])
def test_what_is_no_code_target_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a code target such as sm_90 or compute_120"):
        CodeTarget.parse(text)


@pytest.mark.parametrize(
    ("text", "cuda"),
    [
        ("cu92", CudaVersion(9, 2)),
        ("cu101", CudaVersion(10, 1)),
        ("cu118", CudaVersion(11, 8)),
        ("CU128", CudaVersion(12, 8)),
        ("cu1210", CudaVersion(12, 10)),
        ("cu130", CudaVersion(13, 0)),
    ],
)
def test_labels_name_a_cuda_release(text: str, cuda: CudaVersion) -> None:
    backend = Backend.parse(text)
    assert backend.cuda == cuda
    assert backend.label == text.lower()


def test_the_cpu_label_has_no_cuda() -> None:
    assert Backend.parse("cpu") == CPU
    assert str(CPU) == "cpu"


@pytest.mark.parametrize("text", ["", "cu", "cu1", "cu12345", "rocm6.2", "xpu", "cuda", "128"])
def test_what_is_no_backend_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a backend such as cu128 or cpu"):
        Backend.parse(text)


@given(strategies.driver_versions)
def test_drivers_print_as_read(driver: DriverVersion) -> None:
    assert str(DriverVersion.parse(str(driver))) == str(driver)


@given(strategies.code_targets)
def test_code_targets_print_as_read(target: CodeTarget) -> None:
    again = CodeTarget.parse(str(target))
    assert (again, again.kind) == (target, target.kind)


@given(strategies.backends)
def test_backends_print_as_read(backend: Backend) -> None:
    assert Backend.parse(str(backend)) == backend


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_a_line_break_is_no_part_of_a_version(kind: Any) -> None:
    with pytest.raises(ValueError, match="is not"):
        kind.parse("1\n2")
