"""Finding the program of the uv package without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.lock.uv import packaged_uv

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = b"\x7fELF not really"
RECORD = """\
../../../bin/uv,sha256=tzrN9zuWw6yeVtL6kzQns-5qkB48zmuh4-yz-Ryg2Go,{size}
../../../bin/uvx,sha256=1fvBYInCwxwHay1htPH0Vc3rze8W9TBtSFLvLObhF7w,331344
uv-0.13.9.dist-info/RECORD,,
uv/__init__.py,sha256=DLA95X6E43S_PG_aShLgH2Mx0Os_P31OmoGXrS2Mc30,778
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with uv 0.13.9 in it, and its program where pip puts it."""
    folder = tmp_path / "lib" / "python3.12" / "site-packages"
    (folder / "uv-0.13.9.dist-info").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "uv").write_bytes(PROGRAM)
    write_record(folder, RECORD.format(size=len(PROGRAM)))
    return folder


def write_record(site: Path, text: str) -> None:
    (site / "uv-0.13.9.dist-info" / "RECORD").write_text(text)


def test_the_record_names_the_program_and_its_folder_the_version(
    site: Path, tmp_path: Path
) -> None:
    assert packaged_uv(site) == (tmp_path / "bin" / "uv", Version("0.13.9"))


def test_another_program_in_its_place_has_to_be_asked(site: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "uv").write_bytes(PROGRAM + b" but longer")
    assert packaged_uv(site) is None


def test_a_program_that_is_gone_is_not_named(site: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "uv").unlink()
    assert packaged_uv(site) is None


@pytest.mark.parametrize(
    "record",
    [
        "",
        "uv/__init__.py,,",
        "../../../bin/uv,,",
        "../../../bin/uv",
        "../../../bin/uv,sha256=x,many",
        "../../../share/uv,sha256=x,15",
    ],
)
def test_a_record_that_does_not_say_is_no_answer(site: Path, record: str) -> None:
    write_record(site, record)
    assert packaged_uv(site) is None


def test_two_versions_of_the_package_are_no_answer(site: Path) -> None:
    (site / "uv-0.4.0.dist-info").mkdir()
    assert packaged_uv(site) is None


@pytest.mark.parametrize("name", ["uv-0.13.9.dist-info", "uv-what.dist-info"])
def test_a_package_without_a_record_is_no_answer(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert packaged_uv(tmp_path) is None
    assert packaged_uv(tmp_path / "nowhere") is None
