from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.facts.versions import Backend, CudaVersion

if TYPE_CHECKING:
    from envguard.matrix.loader import Matrix


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
