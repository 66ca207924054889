from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from envguard.errors import MatrixError
from envguard.matrix.loader import Matrix
from envguard.matrix.store import has_tables, pack, read_table, sources, table_names
from tests.matrix.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

TABLES = ROOT / "compat_matrix"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the tables, as people edit them."""
    folder = tmp_path / "matrix"
    shutil.copytree(TABLES, folder, ignore=shutil.ignore_patterns("__*"))
    return folder


def copies(folder: Path) -> list[str]:
    """The decoded copies that are kept beside the tables."""
    return sorted(path.name for path in (folder / "__pycache__").iterdir())


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"build = [\n  { torch = ", "t.toml: is not valid TOML: "),
        (b"a = 1\na = 2\n", "t.toml: is not valid TOML: "),
        (b"\xff\xfe", "t.toml: is not UTF-8 text: "),
        (b"a = " + b"[" * 100_000, "t.toml: is "),
        (b"a = " + b"1" * 10_000, "t.toml: is not valid TOML: "),
    ],
)
def test_a_file_that_is_not_toml_is_one_clear_error(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    (tmp_path / "t.toml").write_bytes(content)
    with pytest.raises(MatrixError) as error:
        read_table(tmp_path, "t.toml")
    assert error.value.message.startswith(problem)
    assert "\n" not in error.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MatrixError) as error:
        read_table(tmp_path, "t.toml")
    assert error.value.message == "t.toml: cannot be read: No such file or directory"


def test_packed_tables_say_what_their_sources_do(copy: Path) -> None:
    names = [path.relative_to(copy).as_posix() for path in sources(copy)]
    said = {name: read_table(copy, name) for name in names}
    packages = list(table_names(copy, "packages"))
    pack(copy)
    assert sources(copy) == ()
    assert has_tables(copy)
    assert {name: read_table(copy, name) for name in names} == said
    assert list(table_names(copy, "packages")) == packages
    assert Matrix.load(copy).torch.releases == Matrix.load(TABLES).torch.releases


def test_a_source_counts_before_its_decoded_form(copy: Path) -> None:
    text = (copy / "uv.toml").read_text(encoding="utf-8")
    pack(copy)
    (copy / "uv.toml").write_text(text.replace("375.26", "375.99"), encoding="utf-8")
    assert str(Matrix.load(copy).uv.drivers[0].linux) == "375.99"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "uv.json: is not valid JSON: "),
        (b"[]", "uv.json: expected a table"),
        (b"[" * 100_000, "uv.json: is not valid JSON: "),
        (b"\xff", "uv.json: is not valid JSON: "),
    ],
)
def test_a_damaged_packed_table_is_one_clear_error(
    copy: Path, content: bytes, problem: str
) -> None:
    pack(copy)
    (copy / "uv.json").write_bytes(content)
    with pytest.raises(MatrixError) as error:
        _ = Matrix.load(copy).uv
    assert error.value.message.startswith(problem)


def test_a_date_has_no_decoded_form(copy: Path) -> None:
    (copy / "uv.toml").write_text("day = 2026-11-29\n", encoding="utf-8")
    with pytest.raises(MatrixError, match=r"uv\.toml: .*date"):
        pack(copy)


def test_a_folder_that_is_named_is_left_as_it_is(copy: Path) -> None:
    before = sorted(copy.rglob("*"))
    _ = Matrix.load(copy).drivers
    assert sorted(copy.rglob("*")) == before


def test_a_copy_is_kept_as_long_as_its_source_is_the_same(copy: Path) -> None:
    first = read_table(copy, "uv.toml", keeps_copy=True)
    (kept,) = copies(copy)
    path = copy / "__pycache__" / kept
    assert json.loads(path.read_text(encoding="utf-8")) == first
    path.write_text('{"from": "the copy"}', encoding="utf-8")
    assert read_table(copy, "uv.toml", keeps_copy=True) == {"from": "the copy"}
    (copy / "uv.toml").write_text("a = 1\n", encoding="utf-8")
    assert read_table(copy, "uv.toml", keeps_copy=True) == {"a": 1}
    (other,) = copies(copy)
    assert other != kept


def test_a_damaged_copy_is_made_anew(copy: Path) -> None:
    first = read_table(copy, "packages/numpy.toml", keeps_copy=True)
    (kept,) = copies(copy)
    (copy / "__pycache__" / kept).write_bytes(b'{"cut')
    assert read_table(copy, "packages/numpy.toml", keeps_copy=True) == first
    assert json.loads((copy / "__pycache__" / kept).read_bytes()) == first


@pytest.mark.skipif(os.name == "nt", reason="a file in the place of a folder is refused otherwise")
def test_a_copy_that_cannot_be_kept_is_no_error(copy: Path) -> None:
    (copy / "__pycache__").write_text("in the way")
    assert read_table(copy, "uv.toml", keeps_copy=True) == read_table(copy, "uv.toml")
    assert (copy / "__pycache__").read_text() == "in the way"
