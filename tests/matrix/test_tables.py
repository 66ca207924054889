from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.facts.machine import OperatingSystem
from envguard.facts.versions import ComputeCapability, CudaVersion, DriverVersion

if TYPE_CHECKING:
    from envguard.matrix.loader import Matrix

LINUX, WINDOWS = OperatingSystem.LINUX, OperatingSystem.WINDOWS


def branch_of(matrix: Matrix, driver: str, system: OperatingSystem) -> int | None:
    row = matrix.drivers.branch_of(DriverVersion.parse(driver), system)
    return row.branch if row else None


def test_the_lowest_patch_release_of_a_toolkit_counts(matrix: Matrix) -> None:
    row = matrix.drivers.toolkit_driver(CudaVersion(12, 2))
    assert row is not None
    assert str(row.toolkit) == "12.2.0"
    assert str(row.linux) == "535.54.03"


def test_a_cuda_that_was_never_released_has_no_driver(matrix: Matrix) -> None:
    assert matrix.drivers.toolkit_driver(CudaVersion(12, 7)) is None
    assert matrix.drivers.toolkit_driver(CudaVersion(12, 10)) is None
    assert matrix.drivers.major_floor(14) is None


@pytest.mark.parametrize(
    ("driver", "branch"),
    [
        ("440.33", 440),
        ("525.147.05", 525),
        ("565.57.01", 565),
        ("585.10", 580),
        ("720.10", 615),
        ("439.9", 418),
        ("390.157", 390),
        ("375.26", 367),
        ("361.93.02", None),
    ],
)
def test_linux_drivers_belong_to_the_branch_at_or_below(
    matrix: Matrix, driver: str, branch: int | None
) -> None:
    assert branch_of(matrix, driver, LINUX) == branch


@pytest.mark.parametrize(
    ("driver", "branch"),
    [
        ("451.48", 450),
        ("452.39", 450),
        ("472.50", 470),
        ("474.64", 470),
        ("527.41", 525),
        ("538.95", 535),
        ("553.62", 550),
        ("566.36", 565),
        ("581.80", 580),
        ("616.92", 615),
        ("440.97", 418),
        ("388.13", 384),
        ("368.81", None),
    ],
)
def test_windows_drivers_follow_their_own_numbers(
    matrix: Matrix, driver: str, branch: int | None
) -> None:
    assert branch_of(matrix, driver, WINDOWS) == branch


def test_a_driver_older_than_every_row_supports_no_known_cuda(matrix: Matrix) -> None:
    assert matrix.drivers.cuda_of_driver(DriverVersion.parse("361.93.02"), LINUX) is None


def test_the_newest_branch_is_615(matrix: Matrix) -> None:
    assert matrix.drivers.newest_branch.branch == 615
    assert matrix.drivers.newest_branch.cuda == CudaVersion(13, 4)


def test_an_unknown_capability_is_of_no_generation(matrix: Matrix) -> None:
    assert matrix.drivers.generation_of(ComputeCapability(4, 0)) is None
    assert matrix.drivers.generation_of(ComputeCapability(13, 0)) is None


def test_what_was_inferred_is_not_firm(matrix: Matrix) -> None:
    fermi = matrix.drivers.generation_of(ComputeCapability(2, 1))
    pascal = matrix.drivers.generation_of(ComputeCapability(6, 1))
    newest = matrix.drivers.toolkit_driver(CudaVersion(13, 4))
    assert fermi is not None
    assert pascal is not None
    assert newest is not None
    assert not fermi.provenance.is_firm
    assert pascal.provenance.is_firm
    assert not newest.provenance.is_firm


def test_a_source_is_an_address_with_a_date(matrix: Matrix) -> None:
    row = matrix.drivers.toolkit_driver(CudaVersion(12, 8))
    assert row is not None
    assert row.provenance.source.url == "https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/"
    assert row.provenance.source.checked == "2026-11-29"
