"""None"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.facts.machine import OperatingSystem
from envguard.facts.versions import Backend, ComputeCapability, CudaVersion, DriverVersion

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


@pytest.mark.parametrize(
    ("cuda", "gcc", "clang"),
    [
        ("11.8", (6, 11), None),
        ("12.1", (6, 12), 14),
        ("12.4", (6, 13), 16),
        ("12.8", (6, 14), 18),
        ("13.0", (6, 15), 20),
    ],
)
def test_host_compilers_of_a_toolkit(
    matrix: Matrix, cuda: str, gcc: tuple[int, int], clang: int | None
) -> None:
    row = matrix.toolkits.host_compiler(CudaVersion.parse(cuda))
    assert row is not None
    assert ((row.gcc_min, row.gcc_max), row.clang_max) == (gcc, clang)


def test_a_toolkit_between_two_known_ones_is_inferred(matrix: Matrix) -> None:
    between = matrix.toolkits.host_compiler(CudaVersion(13, 1))
    known = matrix.toolkits.host_compiler(CudaVersion(13, 2))
    assert between is not None
    assert known is not None
    assert not between.provenance.is_firm
    assert known.provenance.is_firm
    assert matrix.toolkits.host_compiler(CudaVersion(13, 9)) is None


def test_branches_that_cuda_compat_works_on(matrix: Matrix) -> None:
    row = matrix.support.forward_compat_of(CudaVersion(13, 0))
    partly = matrix.support.forward_compat_of(CudaVersion(13, 3))
    assert row is not None
    assert partly is not None
    assert row.base_branches == (535, 550, 565, 570, 575)
    assert not partly.provenance.is_firm


def test_support_life_of_data_center_branches(matrix: Matrix) -> None:
    row = matrix.support.support_of(580)
    newest = matrix.support.support_of(610)
    assert row is not None
    assert newest is not None
    assert (row.kind, row.end_of_life) == ("LTSB", "2028-08")
    assert newest.end_of_life is None
    assert matrix.support.support_of(560) is None


def test_uvs_own_minimum_drivers(matrix: Matrix) -> None:
    rows = {row.backend: row for row in matrix.uv.drivers}
    assert str(rows[Backend.parse("cu128")].linux) == "525.60.13"
    assert str(rows[Backend.parse("cu132")].windows) == "580"
    assert "torchvision" in matrix.uv.routed_packages
    assert "flash-attn" in matrix.uv.system_packages
