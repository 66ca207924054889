"""The shipped matrix, and copies of it that a test may break."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envguard.matrix.loader import Matrix
from envguard.matrix.store import pack

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


def in_rows(text: str) -> str:
    """A table with a row a line, so that a test can name all of one: TOML in another form."""
    comments = [line for line in text.splitlines() if line.startswith("#")]
    return "\n".join([*comments, *_lines(tomllib.loads(text))]) + "\n"


def _lines(data: dict[str, object]) -> Iterator[str]:
    tables = {name: value for name, value in data.items() if isinstance(value, dict)}
    for name, value in data.items():
        if name in tables:
            continue
        if not isinstance(value, list) or not any(isinstance(one, dict) for one in value):
            yield f"{_key(name)} = {_value(value)}"
            continue
        yield f"{_key(name)} = ["
        yield from (f"  {_value(row)}," for row in value)
        yield "]"
    for name, table in tables.items():
        yield f"[{_key(name)}]"
        yield from (f"{_key(key)} = {_value(value)}" for key, value in table.items())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name)


def _value(value: object) -> str:
    match value:
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case dict() if value:
            return f"{{ {', '.join(f'{_key(k)} = {_value(v)}' for k, v in value.items())} }}"
        case _:
            return json.dumps(value, ensure_ascii=False)


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    """The matrix that ships with envguard."""
    return Matrix.load()


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped matrix as a wheel carries it."""
    folder = tmp_path_factory.mktemp("packed") / "matrix"
    shutil.copytree(ROOT / "compat_matrix", folder, ignore=shutil.ignore_patterns("*.py", "__*"))
    pack(folder)
    return folder


@pytest.fixture
def broken(packed: Path, tmp_path: Path) -> Break:
    """A function that replaces the first occurrence of a text in a copied table.

    Its arguments are the file name, the old and the new text; it returns the folder of the copy,
    in which earlier replacements of the same test remain. A row of the copy is one line.
    """
    folder = tmp_path / "matrix"
    shutil.copytree(packed, folder)

    def replace(name: str, old: str, new: str) -> Path:
        path = folder / name
        if not path.exists():
            path.write_text(in_rows((ROOT / "compat_matrix" / name).read_text(encoding="utf-8")))
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{old!r} is not in {name}: the test would break nothing"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        return folder

    return replace
