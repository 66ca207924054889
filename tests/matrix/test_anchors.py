"""Facts typed by hand from NVIDIA's and PyTorch's own pages and wheels; never computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.facts.machine import OperatingSystem, Platform
from envguard.facts.versions import (
    Backend,
    CodeKind,
    ComputeCapability,
    CudaVersion,
    DriverVersion,
)

if TYPE_CHECKING:
    from envguard.matrix.loader import Matrix

LINUX = Platform.parse("linux-x86_64")
ARM = Platform.parse("linux-aarch64")
WINDOWS = Platform.parse("windows-x86_64")
MAC = Platform.parse("macos-aarch64")


def targets_of(matrix: Matrix, pin: str, platform: Platform) -> list[str]:
    version, _, label = pin.partition("+")
    build = matrix.torch.build(Version(version), Backend.parse(label), platform)
    assert build is not None
    assert build.targets is not None
    return [str(target) for target in build.targets]


def pypi_of(matrix: Matrix, version: str, platform: Platform) -> str | None:
    backend = matrix.torch.pypi_backend(Version(version), platform)
    return backend.label if backend else None


def test_the_matrix_is_complete(matrix: Matrix) -> None:
    assert len(matrix.torch.releases) == 52
    assert len(list(matrix.document("torch.toml").rows("build"))) == 156
    assert len(matrix.gpus.models) == 536
    assert len(matrix.drivers.toolkits) == 55
    assert len(matrix.drivers.floors) == 4
    assert len(matrix.drivers.branches) == 31
    assert len(matrix.drivers.generations) == 16
    assert len(matrix.libs.libraries) == 50
    assert len(matrix.libs.companions) == 103
    assert len(matrix.libs.machine_code) == 43
    assert len(matrix.uv.drivers) == 27
    assert len(matrix.gpus.chips) == 51
    assert len(matrix.toolkits.host_compilers) == 23


@pytest.mark.parametrize(
    ("pin", "targets"),
    [
        ("1.0.1+cu90", "sm_35 sm_50 sm_60 sm_70 compute_50"),
        ("1.2.0+cu100", "sm_35 sm_50 sm_60 sm_61 sm_70 sm_75 compute_50"),
        ("1.3.0+cu101", "sm_35 sm_50 sm_60 sm_61 sm_70 sm_75 compute_50"),
        ("1.3.1+cu101", "sm_37 sm_50 sm_60 sm_61 sm_70 sm_75 compute_37"),
        ("1.5.1+cu102", "sm_37 sm_50 sm_60 sm_61 sm_70 sm_75 compute_37"),
        ("1.7.1+cu102", "sm_37 sm_50 sm_60 sm_70 sm_75"),
        ("1.8.1+cu102", "sm_37 sm_50 sm_60 sm_70"),
        ("1.11.0+cu102", "sm_37 sm_50 sm_60 sm_70"),
    ],
)
def test_code_in_the_early_wheels_of_pypi(matrix: Matrix, pin: str, targets: str) -> None:
    assert targets_of(matrix, pin, LINUX) == targets.split()
    version, _, label = pin.partition("+")
    assert pypi_of(matrix, version, LINUX) == label


def test_ampere_code_came_with_cuda_11(matrix: Matrix) -> None:
    assert "sm_80" in targets_of(matrix, "1.7.1+cu110", LINUX)
    assert "sm_86" in targets_of(matrix, "1.9.0+cu111", LINUX)
    assert "sm_80" not in targets_of(matrix, "1.10.1+cu102", LINUX)
    assert "sm_86" in targets_of(matrix, "1.10.1+cu113", WINDOWS)


def test_volta_code_is_in_cu126_of_2_11_and_not_in_cu128(matrix: Matrix) -> None:
    assert "sm_70" in targets_of(matrix, "2.11.0+cu126", LINUX)
    assert targets_of(matrix, "2.11.0+cu128", LINUX) == [
        "sm_75",
        "sm_80",
        "sm_86",
        "sm_90",
        "sm_100",
        "sm_120",
    ]


def test_volta_code_left_cu128_in_2_7_and_came_back_in_2_8(matrix: Matrix) -> None:
    assert "sm_70" not in targets_of(matrix, "2.7.1+cu128", LINUX)
    assert "sm_70" in targets_of(matrix, "2.7.1+cu128", WINDOWS)
    assert "sm_70" in targets_of(matrix, "2.8.0+cu128", LINUX)
    assert "sm_70" in targets_of(matrix, "2.10.0+cu128", LINUX)


def test_2_7_with_cu128_holds_ptx_for_blackwell(matrix: Matrix) -> None:
    build = matrix.torch.build(Version("2.7.0"), Backend.parse("cu128"), LINUX)
    assert build is not None
    assert build.targets is not None
    assert [str(t) for t in build.targets if t.kind is CodeKind.PTX] == ["compute_120"]


def test_hopper_cannot_use_pypi_wheels_of_2_0(matrix: Matrix) -> None:
    assert targets_of(matrix, "2.0.1+cu117", LINUX)[-1] == "sm_86"
    assert targets_of(matrix, "2.0.1+cu118", LINUX)[-1] == "sm_90"


def test_thor_code_is_in_aarch64_cu130_builds_only(matrix: Matrix) -> None:
    assert "sm_110" in targets_of(matrix, "2.11.0+cu130", ARM)
    assert "sm_110" not in targets_of(matrix, "2.11.0+cu130", LINUX)


@pytest.mark.parametrize(
    ("version", "platform", "label"),
    [
        ("1.1.0", LINUX, "cu90"),
        ("1.2.0", LINUX, "cu100"),
        ("1.4.0", LINUX, "cu101"),
        ("1.6.0", WINDOWS, None),
        ("1.7.0", WINDOWS, "cpu"),
        ("1.9.0", ARM, "cpu"),
        ("1.12.1", LINUX, "cu102"),
        ("2.0.1", LINUX, "cu117"),
        ("2.4.1", LINUX, "cu121"),
        ("2.6.0", LINUX, "cu124"),
        ("2.7.1", LINUX, "cu126"),
        ("2.10.0", LINUX, "cu128"),
        ("2.14.1", LINUX, "cu130"),
        ("2.15.0", LINUX, "cu132"),
        ("2.15.0", WINDOWS, "cpu"),
        ("1.12.0", WINDOWS, "cpu"),
        ("2.10.0", ARM, "cpu"),
        ("2.11.0", ARM, "cu130"),
        ("2.15.0", ARM, "cu132"),
        ("2.15.0", MAC, "cpu"),
    ],
)
def test_what_pypi_holds(
    matrix: Matrix, version: str, platform: Platform, label: str | None
) -> None:
    assert pypi_of(matrix, version, platform) == label


def test_macos_on_intel_ends_with_2_2(matrix: Matrix) -> None:
    intel = Platform.parse("macos-x86_64")
    assert pypi_of(matrix, "2.2.2", intel) == "cpu"
    assert pypi_of(matrix, "2.3.0", intel) is None


def test_the_last_release_with_cuda_12_is_2_14_1(matrix: Matrix) -> None:
    cu126 = Backend.parse("cu126")
    assert matrix.torch.builds(platform=LINUX, backend=cu126)[-1].version == Version("2.14.1")
    assert matrix.torch.builds(platform=WINDOWS, backend=cu126)[-1].version == Version("2.14.1")


def test_cu129_skipped_2_12_0(matrix: Matrix) -> None:
    versions = [str(b.version) for b in matrix.torch.builds(None, LINUX, Backend.parse("cu129"))]
    assert versions == ["2.8.0", "2.9.0", "2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0"]


def test_linux_wheels_need_glibc_2_28_from_2_7_on(matrix: Matrix) -> None:
    glibc = {str(r.version): str(r.glibc[LINUX]) for r in matrix.torch.releases}
    assert glibc["2.5.1"] == "2.17"
    assert glibc["2.6.0"] == "2.17"
    assert glibc["2.7.0"] == "2.28"
    assert glibc["2.15.0"] == "2.28"


def test_the_new_cpp_abi_comes_with_2_7_and_earlier_in_2_6_cu126(matrix: Matrix) -> None:
    cu126, cu124 = Backend.parse("cu126"), Backend.parse("cu124")
    old = matrix.torch.build(Version("2.6.0"), cu124, LINUX)
    early = matrix.torch.build(Version("2.6.0"), cu126, LINUX)
    new = matrix.torch.build(Version("2.7.0"), cu126, LINUX)
    assert old is not None
    assert early is not None
    assert new is not None
    assert (old.cxx11_abi, early.cxx11_abi, new.cxx11_abi) == (False, True, True)
    assert (str(old.glibc), str(early.glibc), str(new.glibc)) == ("2.17", "2.28", "2.28")


@pytest.mark.parametrize(
    ("cuda", "linux", "windows"),
    [
        ("8.0", "375.26", "376.51"),
        ("9.0", "384.81", "385.54"),
        ("9.2", "396.26", "397.44"),
        ("10.0", "410.48", "411.31"),
        ("10.1", "418.39", "418.96"),
        ("10.2", "440.33", "441.22"),
        ("11.8", "520.61.05", "520.06"),
        ("12.1", "530.30.02", "531.14"),
        ("12.4", "550.54.14", "551.61"),
        ("12.6", "560.28.03", "560.76"),
        ("12.8", "570.26", "570.65"),
        ("12.9", "575.51.03", "576.02"),
        ("13.0", "580.65.06", None),
        ("13.2", "595.45.04", None),
    ],
)
def test_driver_of_a_toolkits_first_release(
    matrix: Matrix, cuda: str, linux: str, windows: str | None
) -> None:
    row = matrix.drivers.toolkit_driver(CudaVersion.parse(cuda))
    assert row is not None
    assert str(row.linux) == linux
    assert (str(row.windows) if row.windows else None) == windows


@pytest.mark.parametrize(
    ("major", "linux", "windows"),
    [(11, "450.80.02", "452.39"), (12, "525.60.13", "528.33"), (13, "580", "580")],
)
def test_oldest_driver_of_a_cuda_major(
    matrix: Matrix, major: int, linux: str, windows: str
) -> None:
    floor = matrix.drivers.major_floor(major)
    assert floor is not None
    assert (str(floor.linux), str(floor.windows)) == (linux, windows)


@pytest.mark.parametrize(
    ("driver", "system", "cuda"),
    [
        ("390.157", OperatingSystem.LINUX, "9.1"),
        ("410.104", OperatingSystem.LINUX, "10.0"),
        ("430.64", OperatingSystem.LINUX, "10.1"),
        ("417.35", OperatingSystem.WINDOWS, "10.0"),
        ("470.256.02", OperatingSystem.LINUX, "11.4"),
        ("535.104.05", OperatingSystem.LINUX, "12.2"),
        ("550.144.03", OperatingSystem.LINUX, "12.4"),
        ("580.95.05", OperatingSystem.LINUX, "13.0"),
        ("537.13", OperatingSystem.WINDOWS, "12.2"),
        ("572.61", OperatingSystem.WINDOWS, "12.8"),
        ("591.44", OperatingSystem.WINDOWS, "13.1"),
    ],
)
def test_cuda_of_a_driver(matrix: Matrix, driver: str, system: OperatingSystem, cuda: str) -> None:
    found = matrix.drivers.cuda_of_driver(DriverVersion.parse(driver), system)
    assert str(found) == cuda


@pytest.mark.parametrize(
    ("capability", "name", "last_branch"),
    [
        ("3.7", "Kepler", 470),
        ("5.2", "Maxwell", 580),
        ("6.1", "Pascal", 580),
        ("7.0", "Volta", 580),
        ("7.5", "Turing", None),
        ("9.0", "Hopper", None),
    ],
)
def test_last_driver_branch_of_a_generation(
    matrix: Matrix, capability: str, name: str, last_branch: int | None
) -> None:
    row = matrix.drivers.generation_of(ComputeCapability.parse(capability))
    assert row is not None
    assert (row.name, row.last_branch) == (name, last_branch)


def test_cuda_12_calls_thor_10_1(matrix: Matrix) -> None:
    row = matrix.drivers.generation_of(ComputeCapability(10, 1))
    assert row is not None
    assert row.name == "Thor"


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("Tesla V100-SXM2-16GB", "7.0"),
        ("NVIDIA GB10", "12.1"),
        ("NVIDIA GeForce GTX 1080 Ti", "6.1"),
        ("Tesla T4", "7.5"),
        ("NVIDIA A100-SXM4-80GB", "8.0"),
        ("NVIDIA A10G", "8.6"),
        ("NVIDIA L40S", "8.9"),
        ("NVIDIA H100 80GB HBM3", "9.0"),
        ("NVIDIA B200", "10.0"),
        ("NVIDIA GeForce RTX 5090", "12.0"),
        ("NVIDIA Jetson AGX Orin", "8.7"),
        ("Tesla K80", "3.7"),
    ],
)
def test_compute_capability_of_a_product(matrix: Matrix, name: str, capability: str) -> None:
    assert {str(model.capability) for model in matrix.gpus.find(name)} == {capability}


@pytest.mark.parametrize(
    ("torch", "torchvision", "torchaudio", "triton"),
    [
        ("1.5.0", "0.6.0", "0.5.0", ""),
        ("1.10.1", "0.11.2", "0.10.1", ""),
        ("2.1.2", "0.16.2", "2.1.2", "==2.1.0"),
        ("2.6.0", "0.21.0", "2.6.0", "==3.2.0"),
        ("2.11.0", "0.26.0", "2.11.0", "==3.6.0"),
        ("2.15.0", "0.29.2", "2.11.1", "~=3.9.0"),
    ],
)
def test_companions_of_a_release(
    matrix: Matrix, torch: str, torchvision: str, torchaudio: str, triton: str
) -> None:
    release = matrix.torch.release(Version(torch))
    assert release is not None
    assert [str(v) for v in release.torchvision] == [torchvision]
    assert [str(v) for v in release.torchaudio] == [torchaudio]
    assert release.triton == triton


def test_cuda_13_no_longer_compiles_for_volta(matrix: Matrix) -> None:
    assert matrix.support.oldest_target(CudaVersion(12, 8)) == ComputeCapability(5, 0)
    assert matrix.support.oldest_target(CudaVersion(13, 0)) == ComputeCapability(7, 5)
