"""Names of prebuilt wheels, and which combinations were built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.facts.versions import CudaVersion
from envguard.lock.prebuilt_rows import Combination, WheelMatrix, parse_file_name

if TYPE_CHECKING:
    from envguard.matrix.loader import Matrix


def wheels(matrix: Matrix, name: str) -> WheelMatrix:
    found = WheelMatrix.of(matrix.packages(name))
    assert found is not None
    return found


def combination(
    release: str, torch: str, cuda: str, *, abi: bool = True, python: str = "cp312"
) -> Combination:
    return Combination(Version(release), torch, cuda, abi, python, "linux_x86_64")


@pytest.mark.parametrize(
    ("package", "release", "cuda", "label"),
    [
        ("flash-attn", "2.3.0", "12.1", "121"),
        ("flash-attn", "2.3.0", "11.8", "118"),
        ("flash-attn", "2.5.0", "12.1", "122"),
        ("flash-attn", "2.6.3", "12.1", "123"),
        ("flash-attn", "2.8.3", "12.8", "12"),
        ("flash-attn", "2.8.3.post2", "13.0", "13"),
        ("causal-conv1d", "1.4.0", "12.1", "122"),
        ("causal-conv1d", "1.5.0.post8", "12.4", "12"),
        ("mamba-ssm", "2.2.2", "11.8", "118"),
        ("mamba-ssm", "2.2.4", "12.4", "12"),
        ("mamba-ssm", "2.3.1", "13.0", "13"),
    ],
)
def test_cuda_is_labelled_as_the_release_does(
    matrix: Matrix, package: str, release: str, cuda: str, label: str
) -> None:
    found = wheels(matrix, package).label(Version(release), CudaVersion.parse(cuda))
    assert found == label


def test_wheel_has_the_name_and_address_that_people_use(matrix: Matrix) -> None:
    flash = wheels(matrix, "flash-attn")
    (name,) = flash.file_names(combination("2.8.3", "2.8", "12"))
    assert name == "flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
    assert flash.url(Version("2.8.3"), name, "https://github.com") == (
        "https://github.com/Dao-AILab/flash-attention/releases/download/v2.8.3/"
        "flash_attn-2.8.3%2Bcu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
    )
    assert flash.listing_url(Version("2.8.3"), "https://mirror.example/gh/") == (
        "https://mirror.example/gh/Dao-AILab/flash-attention/releases/expanded_assets/v2.8.3"
    )


def test_tag_of_a_post_release_may_hold_wheels_without_it(matrix: Matrix) -> None:
    names = wheels(matrix, "causal-conv1d").file_names(combination("1.6.1.post4", "2.10", "12"))
    assert "causal_conv1d-1.6.1+cu12torch2.10cxx11abiTRUE-cp312-cp312-linux_x86_64.whl" in names


@pytest.mark.parametrize(
    ("found", "is_built"),
    [
        (combination("2.8.3", "2.8", "12"), True),
        (combination("2.8.3", "2.8", "12", abi=False), True),
        (combination("2.8.3", "2.8", "13"), False),
        (combination("2.8.3", "2.4", "12", python="cp313"), False),  # excluded in the workflow
        (combination("2.8.3", "2.9", "12"), True),  # seen, not in the workflow
        (combination("2.8.3", "2.9", "12", python="cp311"), False),
        (combination("2.8.3", "2.14", "12"), False),
        (combination("2.8.3.post1", "2.11", "13"), False),  # seen to be missing
        (combination("2.3.1.post1", "2.0", "121"), False),  # excluded by CUDA
    ],
)
def test_build_matrix_says_what_was_built(
    matrix: Matrix, found: Combination, is_built: bool
) -> None:
    assert wheels(matrix, "flash-attn").is_built(found) == is_built


def test_digest_of_a_seen_wheel_is_on_record(matrix: Matrix) -> None:
    flash = wheels(matrix, "flash-attn")
    name = "flash_attn-2.8.3+cu12torch2.9cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
    assert flash.recorded_digest(name).startswith("4e2f9e39313266b1")
    assert flash.recorded_digest(name.replace("2.9", "2.8")) == ""


def test_name_says_what_a_wheel_was_made_for() -> None:
    name = "mamba_ssm-2.2.2+cu122torch2.4cxx11abiFALSE-cp311-cp311-linux_x86_64.whl"
    assert parse_file_name(name) == combination("2.2.2", "2.4", "122", abi=False, python="cp311")
    assert parse_file_name("mamba_ssm-2.2.2-py3-none-any.whl") is None


def test_every_combination_names_wheels_that_say_the_same(matrix: Matrix) -> None:
    for package in ("flash-attn", "causal-conv1d", "mamba-ssm"):
        found = wheels(matrix, package)
        for one in list(found.combinations())[::97]:
            assert one in [parse_file_name(name) for name in found.file_names(one)]


def test_building_from_source_takes_what_is_recorded(matrix: Matrix) -> None:
    (build,) = wheels(matrix, "flash-attn").source_builds()
    assert build.requires == ("torch", "einops")
    assert "nvcc 11.7 or newer" in build.tools


def test_package_without_prebuilt_wheels_has_none(matrix: Matrix) -> None:
    assert WheelMatrix.of(matrix.packages("deepspeed")) is None
    assert WheelMatrix.of(None) is None
