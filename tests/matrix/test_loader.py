from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from envguard.errors import MatrixError
from envguard.matrix.loader import Matrix
from tests.matrix.conftest import ROOT

if TYPE_CHECKING:
    from tests.matrix.conftest import Break

ASK = """
from envguard.matrix.loader import Matrix
matrix = Matrix.load()
print(len(matrix.torch.releases), len(matrix.gpus.models), matrix.folder)
"""


def ask(path: list[Path], *options: str) -> str:
    """What a fresh interpreter finds, with these places before its own packages."""
    places = os.pathsep.join(map(str, path))
    environment = {**os.environ, "PYTHONPATH": places}
    done = subprocess.run(
        [sys.executable, *options, "-c", ASK],
        env=environment,
        cwd=path[0].parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that this checkout builds, built in a copy of it."""
    pytest.importorskip("setuptools", minversion="77")
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("envguard", "compat_matrix"):
        shutil.copytree(ROOT / folder, source / folder, ignore=ignored)
    for name in ("pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, source / name)
    for name in ("README.md", "LICENSE"):  # named by pyproject.toml; their text is of no matter
        (source / name).write_text("text\n")
    subprocess.run(
        [
            sys.executable,
            "-c",
            f"from setuptools import build_meta as b; b.build_wheel({str(place)!r})",
        ],
        cwd=source,
        capture_output=True,
        check=True,
    )
    (found,) = place.glob("*.whl")
    return found


def test_the_manifest_names_schema_and_data(matrix: Matrix) -> None:
    assert matrix.manifest.schema_version == 2
    assert matrix.manifest.data_version == "2026.11.30"


def test_a_table_is_read_once_and_only_when_asked_for(broken: Break) -> None:
    folder = broken("gpus.toml", "gpu = [", "gpu = [ broken")
    matrix = Matrix.load(folder)
    assert matrix.drivers is matrix.drivers
    assert matrix.torch is matrix.torch
    with pytest.raises(MatrixError, match=r"gpus\.toml: is not valid TOML"):
        _ = matrix.gpus


def test_the_default_is_what_a_folder_of_the_checkout_gives() -> None:
    named, default = Matrix.load(ROOT / "compat_matrix"), Matrix.load()
    assert named.torch.releases == default.torch.releases
    assert named.drivers.branches == default.drivers.branches


@pytest.mark.parametrize("version", ["1", "3", "0", "99"])
def test_another_schema_is_refused(broken: Break, version: str) -> None:
    folder = broken("manifest.toml", "schema_version = 2", f"schema_version = {version}")
    with pytest.raises(MatrixError) as error:
        Matrix.load(folder)
    said = f"manifest.toml: schema_version: {version} is not the one this envguard reads (2)"
    assert error.value.message == said
    assert ("update envguard" in error.value.hint) == (int(version) > 2)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("schema_version = 2", 'schema_version = "1"', "schema_version"),
        ("schema_version = 2", "schema_version = true", "schema_version"),
        ("schema_version = 2", "", "schema_version"),
        ('data_version = "2026.11.30"', "data_version = 2026", "data_version"),
        ('data_version = "2026.11.30"', "", "data_version"),
    ],
)
def test_a_manifest_without_its_fields_is_refused(
    broken: Break, old: str, new: str, field: str
) -> None:
    with pytest.raises(MatrixError, match=rf"manifest\.toml: {field}: expected"):
        Matrix.load(broken("manifest.toml", old, new))


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match=r"manifest\.toml: cannot be read"):
        Matrix.load(tmp_path)


def test_a_truncated_table_is_refused(broken: Break) -> None:
    folder = broken("torch.toml", "# Torch", "# Torch")
    path = folder / "torch.toml"
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(MatrixError, match=r"torch\.toml: is not valid TOML"):
        _ = Matrix.load(folder).torch


def test_an_installed_wheel_brings_its_tables(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    shutil.unpack_archive(wheel, installed, "zip")
    tables = installed / "envguard" / "compat_matrix"
    assert ask([installed]) == f"52 536 {tables}"


def test_tables_are_read_out_of_a_zip(wheel: Path) -> None:
    assert ask([wheel]).startswith("52 536 ")


def test_a_checkout_that_is_not_installed_finds_its_tables(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("envguard", "compat_matrix"):
        shutil.copytree(ROOT / folder, checkout / folder, ignore=ignored)
    packages = Path(sysconfig.get_paths()["purelib"])
    # -S leaves out the .pth file through which this interpreter knows envguard.
    assert ask([checkout, packages], "-S") == f"52 536 {checkout / 'compat_matrix'}"


def test_an_installation_without_tables_says_so(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / "envguard", checkout / "envguard")
    packages = Path(sysconfig.get_paths()["purelib"])
    with pytest.raises(subprocess.CalledProcessError) as error:
        ask([checkout, packages], "-S")
    assert "no compatibility matrix found in" in error.value.stderr
