"""None"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.facts.machine import Platform
from envguard.facts.versions import Backend
from envguard.matrix.libs import CudaMatch

if TYPE_CHECKING:
    from envguard.matrix.loader import Matrix


@pytest.mark.parametrize(
    ("torch", "label", "cudnn", "nccl"),
    [
        ("2.11.0", "cu128", "9.19.0.56", "2.28.9"),
        ("2.14.1+cu126", "cu126", "9.10.2.21", "2.29.3"),
        ("2.4.1", "cu121", "9.1.0.70", "2.20.5"),
        ("2.4.1", "cu124", "9.1.0.70", None),
    ],
)
def test_libraries_of_a_build(
    matrix: Matrix, torch: str, label: str, cudnn: str, nccl: str | None
) -> None:
    row = matrix.libs.libraries_of(Version(torch), Backend.parse(label))
    assert row is not None
    assert (row.cudnn, row.nccl) == (cudnn, nccl)


def test_libraries_that_are_not_recorded(matrix: Matrix) -> None:
    assert matrix.libs.libraries_of(Version("2.15.0"), Backend.parse("cu132")) is None


def test_requirements_of_pypis_wheel(matrix: Matrix) -> None:
    row = matrix.libs.requirements_of(Version("2.15.0"))
    assert row is not None
    assert "nvidia-nccl-cu13==2.30.7" in row.requires
    assert row.triton_marker == 'platform_system == "Linux" and python_version < "3.16"'
    assert row.commit == "d0f2af8b66b20da4baa50644c0cd3f887a2eae2e"


def test_torchvision_pins_torch_until_0_29_0(matrix: Matrix) -> None:
    strict = matrix.libs.companion("torchvision", Version("0.28.0+cu130"))
    free = matrix.libs.companion("torchvision", Version("0.29.2"))
    assert strict is not None
    assert free is not None
    assert str(strict.torch) == "==2.13.0"
    assert str(free.torch) == ">=2.14.0"
    assert free.tag == "py3-none-manylinux_2_28_x86_64"


def test_torchaudio_2_11_0_admits_any_torch(matrix: Matrix) -> None:
    found = [str(row.version) for row in matrix.libs.companions_for("torchaudio", Version("2.6.0"))]
    assert found == ["2.6.0", "2.11.0"]


@pytest.mark.parametrize(
    ("package", "version", "match"),
    [
        ("torchvision", "0.15.2+cu118", CudaMatch.MINOR),
        ("torchvision", "0.16.0", CudaMatch.MAJOR),
        ("torchaudio", "2.11.0+cu130", CudaMatch.MINOR),
        ("torchaudio", "2.11.1", CudaMatch.MAJOR),
        ("xformers", "0.0.30", None),
    ],
)
def test_what_a_companion_compares_at_import(
    matrix: Matrix, package: str, version: str, match: CudaMatch | None
) -> None:
    assert matrix.libs.cuda_match(package, Version(version)) is match


def test_machine_code_counts_of_a_wheel_that_was_read(matrix: Matrix) -> None:
    linux = Platform.parse("linux-x86_64")
    (row,) = [
        r for r in matrix.libs.machine_code if r.torch == Version("2.11.0") and r.platform == linux
    ]
    counts = {str(target): count for target, count in row.counts}
    assert (counts["sm_90"], counts["sm_90a"]) == (444, 4)
    assert "sm_70" not in counts
    assert row.file == "torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    assert row.provenance.source.url == row.file


def test_builds_for_other_vendors_are_named(matrix: Matrix) -> None:
    row = matrix.libs.other_vendors_of(Version("2.11.0"))
    old = matrix.libs.other_vendors_of(Version("1.13.1"))
    assert row is not None
    assert old is not None
    assert row.rocm == ("rocm7.1", "rocm7.2")
    assert row.xpu is True
    assert old.xpu is False
