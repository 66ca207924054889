"""None"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.errors import MatrixError
from envguard.facts.machine import Platform
from envguard.facts.versions import CPU, Backend
from envguard.matrix.loader import Matrix
from envguard.matrix.rows import Confidence

if TYPE_CHECKING:
    from envguard.matrix.rows import TorchBuildRow
    from tests.matrix.conftest import Break


LINUX = Platform.parse("linux-x86_64")
ARM = Platform.parse("linux-aarch64")
WINDOWS = Platform.parse("windows-x86_64")


def build_of(matrix: Matrix, pin: str, platform: Platform = LINUX) -> TorchBuildRow:
    version, _, label = pin.partition("+")
    build = matrix.torch.build(Version(version), Backend.parse(label), platform)
    assert build is not None
    return build


def test_a_local_label_does_not_matter_for_the_release(matrix: Matrix) -> None:
    release = matrix.torch.release(Version("2.7.1+cu128"))
    assert release is not None
    assert str(release.version) == "2.7.1"
    assert matrix.torch.pypi_backend(Version("2.7.1+cu118"), LINUX) == Backend.parse("cu126")


@pytest.mark.parametrize("version", ["2.99.0", "2.7.2", "2.7.1.dev20250101", "0.4.1"])
def test_a_version_that_is_not_recorded_has_no_release(matrix: Matrix, version: str) -> None:
    assert matrix.torch.release(Version(version)) is None
    assert matrix.torch.builds(Version(version)) == ()
    assert matrix.torch.pypi_backend(Version(version), LINUX) is None


def test_a_query_about_one_release_reads_its_rows_alone(broken: Break) -> None:
    folder = broken("torch.toml", 'torch = "2.15.0", platform', 'torch = "2.15.0", system')
    matrix = Matrix.load(folder)
    assert build_of(matrix, "2.7.1+cu126").is_on_pypi
    assert matrix.torch.release(Version("1.3.1")) is not None
    with pytest.raises(MatrixError, match=r"torch\.toml: pypi\[\d+\]\.platform: is missing"):
        _ = matrix.torch.releases


def test_a_release_is_the_same_by_every_spelling_and_order_of_queries(matrix: Matrix) -> None:
    fresh = Matrix.load()
    one, builds = fresh.torch.release(Version("2.7.1")), fresh.torch.builds(Version("2.7.1"))
    assert fresh.torch.release(Version("1.2")) == matrix.torch.release(Version("1.2.0"))
    assert one in matrix.torch.releases
    assert builds == tuple(b for b in matrix.torch.builds() if b.version == Version("2.7.1"))


def test_what_an_early_wheel_does_not_tell_is_left_out(matrix: Matrix) -> None:
    release = matrix.torch.release(Version("1.0.1"))
    assert release is not None
    assert (release.cudnn, release.nccl) == ("", "2.3.7")
    assert release.torchaudio == ()
    assert release.requires_python.contains("3.5")


def test_the_default_build_of_early_releases_carries_no_label(matrix: Matrix) -> None:
    assert build_of(matrix, "1.7.1+cu102").label == "1.7.1"
    assert build_of(matrix, "1.7.1+cu110").label == "1.7.1+cu110"
    assert build_of(matrix, "1.0.1+cu100", WINDOWS).label == "1.0.1"
    assert build_of(matrix, "1.8.0+cu102").label == "1.8.0+cu102"


def test_the_wheel_of_1_7_0_for_python_3_8_on_windows_is_misnamed(matrix: Matrix) -> None:
    release = matrix.torch.release(Version("1.7.0"))
    assert release is not None
    assert release.pythons[WINDOWS] == ("cp36", "cp37")


def test_releases_are_sorted_as_versions(matrix: Matrix) -> None:
    versions = [str(release.version) for release in matrix.torch.releases]
    assert versions[0] == "1.0.0"
    assert versions[-1] == "2.15.0"
    assert versions.index("2.9.1") + 1 == versions.index("2.10.0")


def test_builds_of_a_release_for_a_platform(matrix: Matrix) -> None:
    labels = [build.label for build in matrix.torch.builds(Version("2.11.0"), LINUX)]
    assert labels == [
        "2.11.0+cpu",
        "2.11.0+cu126",
        "2.11.0+cu128",
        "2.11.0+cu129",
        "2.11.0+cu130",
    ]


def test_a_platform_that_only_the_index_serves_is_there(matrix: Matrix) -> None:
    windows_arm = Platform.parse("windows-aarch64")
    (build,) = matrix.torch.builds(Version("2.9.0"), windows_arm)
    assert build.backend == CPU
    assert not build.is_on_pypi
    assert build.pythons == ()


def test_pypi_build_is_marked(matrix: Matrix) -> None:
    assert build_of(matrix, "2.11.0+cu130").is_on_pypi
    assert not build_of(matrix, "2.11.0+cu126").is_on_pypi
    assert build_of(matrix, "2.11.0+cpu", WINDOWS).is_on_pypi


def test_a_cpu_build_holds_no_gpu_code(matrix: Matrix) -> None:
    build = build_of(matrix, "2.11.0+cpu")
    assert build.targets == ()
    assert build.is_ptx_known


def test_absence_of_ptx_is_not_claimed_where_it_was_not_seen(matrix: Matrix) -> None:
    assert not build_of(matrix, "2.13.0+cu129").is_ptx_known
    assert build_of(matrix, "2.13.0+cu130").is_ptx_known


def test_a_build_that_was_read_is_firm_and_one_guessed_is_not(matrix: Matrix) -> None:
    read = build_of(matrix, "2.15.0+cu132").provenance
    guessed = build_of(matrix, "2.7.0+cu128", ARM).provenance
    assert (read.confidence, read.is_firm) == (Confidence.BINARY, True)
    assert (guessed.confidence, guessed.is_firm) == (Confidence.INFERRED, False)


def test_an_announced_build_is_not_firm_though_its_code_is_documented(matrix: Matrix) -> None:
    build = build_of(matrix, "2.15.0+cu130")
    assert build.provenance.confidence is Confidence.METADATA
    assert not build.is_verified
    assert not build.provenance.is_firm


def test_what_pypi_holds_is_established_whatever_the_index_says(matrix: Matrix) -> None:
    build = build_of(matrix, "2.15.0+cu132")
    assert build.is_on_pypi
    assert build.is_verified


def test_a_backend_that_only_may_exist_is_named_and_has_no_build(matrix: Matrix) -> None:
    release = matrix.torch.release(Version("2.15.0"))
    assert release is not None
    assert release.unverified[LINUX] == (Backend.parse("cu134"),)
    assert WINDOWS not in release.unverified
    assert matrix.torch.build(Version("2.15.0"), Backend.parse("cu134"), LINUX) is None


def test_an_unseen_wheel_is_not_verified(matrix: Matrix) -> None:
    build = build_of(matrix, "2.6.0+cu126", ARM)
    assert not build.is_verified
    assert not build.provenance.is_firm


def test_early_aarch64_cuda_wheels_carry_no_label(matrix: Matrix) -> None:
    build = build_of(matrix, "2.5.1+cu124", ARM)
    assert build.label == "2.5.1"
    assert build.glibc is None
    assert build.cxx11_abi is None


def test_macos_wheels_carry_no_label(matrix: Matrix) -> None:
    build = build_of(matrix, "2.11.0+cpu", Platform.parse("macos-aarch64"))
    assert build.label == "2.11.0"


def test_the_index_has_pythons_that_pypi_lacks(matrix: Matrix) -> None:
    release = matrix.torch.release(Version("2.13.0"))
    assert release is not None
    assert "cp315" not in release.pythons[LINUX]
    assert "cp315" in build_of(matrix, "2.13.0+cu126").pythons


def test_builds_filter_by_backend_over_all_releases(matrix: Matrix) -> None:
    builds = matrix.torch.builds(platform=LINUX, backend=Backend.parse("cu115"))
    assert [b.label for b in builds] == ["1.11.0+cu115"]
    builds = matrix.torch.builds(platform=LINUX, backend=Backend.parse("cu110"))
    assert [b.label for b in builds] == ["1.7.0+cu110", "1.7.1+cu110"]


@pytest.mark.parametrize(
    ("template", "url"),
    [
        ("https://download.pytorch.org/whl/{backend}", "https://download.pytorch.org/whl/cu128"),
        ("https://index.example/pytorch/{backend}/", "https://index.example/pytorch/cu128/"),
        ("https://index.example/flat", "https://index.example/flat"),
    ],
)
def test_index_url_fills_the_template(matrix: Matrix, template: str, url: str) -> None:
    assert matrix.torch.index_url(Backend.parse("cu128"), template) == url


def test_index_url_of_pytorch_is_the_default(matrix: Matrix) -> None:
    assert matrix.torch.index_url(CPU) == "https://download.pytorch.org/whl/cpu"


def test_every_cuda_build_has_recorded_code(matrix: Matrix) -> None:
    missing = [b.label for b in matrix.torch.builds() if b.targets is None]
    assert missing == []
