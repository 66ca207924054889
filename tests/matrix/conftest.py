"""The shipped matrix, and copies of it that a test may break."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from envguard.matrix.loader import Matrix

ROOT = Path(__file__).resolve().parent.parent.parent
Break = Callable[[str, str, str], Path]


def row_of(path: Path, text: str) -> int:
    """The position, in its array, of the row whose line holds a text."""
    position = 0
    for line in path.read_text(encoding="utf-8").splitlines():
        if text in line:
            return position
        position = position + 1 if line.startswith("  ") else 0
    raise AssertionError(f"{text!r} is on no line of {path.name}")


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    """The matrix that ships with envguard."""
    return Matrix.load()


@pytest.fixture
def broken(tmp_path: Path) -> Break:
    """A function that replaces the first occurrence of a text in a copied table.

    Its arguments are the file name, the old and the new text; it returns the folder of the copy,
    in which earlier replacements of the same test remain.
    """
    folder = tmp_path / "matrix"
    shutil.copytree(ROOT / "compat_matrix", folder)

    def replace(name: str, old: str, new: str) -> Path:
        path = folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{old!r} is not in {name}: the test would break nothing"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        return folder

    return replace
