from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.facts.versions import CudaVersion

if TYPE_CHECKING:
    from envguard.matrix.loader import Matrix

# From op_builder/builder.py at the tags: release, toolkit, torch's CUDA, whether they may differ.
MIXING = [
    ("0.9.2", "12.1", "12.0", False),
    ("0.9.3", "12.1", "12.0", True),
    ("0.12.0", "12.2", "12.1", False),
    ("0.12.1", "12.2", "12.1", True),
    ("0.14.0", "11.8", "11.7", True),
    ("0.14.0", "11.8", "12.1", False),
    ("0.16.3", "12.8", "12.4", False),
    ("0.16.4", "12.8", "12.4", True),
    ("0.17.1", "12.9", "12.8", False),
    ("0.17.2", "12.9", "12.8", True),
    ("0.19.8", "13.0", "13.0", True),
    ("0.19.8", "13.2", "13.0", False),
    ("0.19.8", "12.7", "12.8", False),
]


@pytest.mark.parametrize(("version", "toolkit", "torch", "may"), MIXING)
def test_which_toolkits_may_differ_from_torch(
    matrix: Matrix, version: str, toolkit: str, torch: str, *, may: bool
) -> None:
    row = matrix.deepspeed.release(Version(version))
    assert row is not None
    assert row.may_mix(CudaVersion.parse(toolkit), CudaVersion.parse(torch)) is may


def test_every_release_since_0_9_has_a_row(matrix: Matrix) -> None:
    releases = matrix.deepspeed.releases
    assert len(releases) == 73
    assert (releases[0].version, releases[-1].version) == (Version("0.9.0"), Version("0.19.8"))


def test_the_escape_came_with_0_9_3(matrix: Matrix) -> None:
    old, new = (matrix.deepspeed.release(Version(v)) for v in ("0.9.2", "0.9.3"))
    assert old is not None
    assert new is not None
    assert (old.has_skip_variable, new.has_skip_variable) == (False, True)


def test_windows_wheels_exist_for_five_releases(matrix: Matrix) -> None:
    found = [str(r.version) for r in matrix.deepspeed.releases if r.has_windows_wheel]
    assert found == ["0.14.5", "0.15.0", "0.16.3", "0.16.4", "0.16.5"]


@pytest.mark.parametrize(
    ("version", "name", "bound"),
    [
        ("0.9.0", "pydantic", ""),
        ("0.9.1", "pydantic", "<2.0.0"),
        ("0.11.2", "pydantic", ""),
        ("0.15.0", "pydantic", ">=2.0.0"),
        ("0.19.0", "torch", ""),
        ("0.19.1", "torch", ">=2.0.0"),
    ],
)
def test_requirements(matrix: Matrix, version: str, name: str, bound: str) -> None:
    row = matrix.deepspeed.packages.release(Version(version))
    assert row is not None
    assert row.requires[name] == SpecifierSet(bound)


def test_what_its_makers_test(matrix: Matrix) -> None:
    row = matrix.deepspeed.release(Version("0.16.4"))
    assert row is not None
    assert "2.6+cu12.4" in row.tested
    assert "2.6+cpu" in row.tested


def test_a_release_without_a_row_has_the_newest_before_it(matrix: Matrix) -> None:
    assert matrix.deepspeed.release(Version("0.99.0")) is None
    newest = matrix.deepspeed.newest_before(Version("0.99.0"))
    assert newest is not None
    assert newest.version == Version("0.19.8")
    assert matrix.deepspeed.newest_before(Version("0.8.0")) is None


def test_its_requirements_are_a_package_table_too(matrix: Matrix) -> None:
    assert matrix.packages("deepspeed") is matrix.deepspeed.packages
