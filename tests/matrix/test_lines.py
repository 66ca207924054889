from __future__ import annotations

import tomllib

import pytest

from envguard.errors import MatrixError
from envguard.matrix.lines import LineData, decode_lines, find_rows
from envguard.matrix.reading import Document
from tests.matrix.conftest import ROOT

TEXT = """\
# A table.
name = "demo"
release = [
  { version = "1.0", torch = "==2.0", text = "holds version = \\"1.1\\"" },
  { version = "1.1", requires = { numpy = ">=1, <2" } },
]
empty = [
]
[sources]
s = { url = "https://docs.example/", checked = "2026-11-29" }
"""
LARGE = ("deepspeed.toml", "breaks.toml", "packages/vllm.toml", "packages/flash-attn.toml")


def document(text: str) -> Document:
    return Document("demo.toml", decode_lines(text, "demo.toml"))


def test_a_table_decodes_to_what_toml_says() -> None:
    data = decode_lines(TEXT, "demo.toml")
    assert isinstance(data, LineData)
    assert dict(data) == tomllib.loads(TEXT)
    assert len(data) == 4


@pytest.mark.parametrize("name", LARGE)
def test_the_shipped_tables_decode_to_what_toml_says(name: str) -> None:
    text = (ROOT / "compat_matrix" / name).read_text(encoding="utf-8")
    data = decode_lines(text, name)
    assert isinstance(data, LineData)
    assert dict(data) == tomllib.loads(text)


def test_only_the_row_that_is_asked_for_is_decoded() -> None:
    broken = TEXT.replace('torch = "==2.0"', "torch = what")
    (row,) = find_rows(document(broken), "release", "version", "1.1")
    assert row.index == 1
    assert row.data == {"version": "1.1", "requires": {"numpy": ">=1, <2"}}


def test_a_text_inside_another_field_is_no_match() -> None:
    found = list(find_rows(document(TEXT), "release", "version", "1.1"))
    assert [row.index for row in found] == [1]


def test_a_broken_row_is_named() -> None:
    data = document(TEXT.replace('torch = "==2.0"', "torch = what")).data
    with pytest.raises(MatrixError, match=r"demo\.toml: release\[0\]: is not valid TOML: "):
        _ = data["release"]


@pytest.mark.parametrize(
    "text",
    [
        'name = "demo"\n[[release]]\nversion = "1.0"\n',
        'name = "demo"\nrelease = [{ version = "1.0" }]\n',
        'name = "demo"\nrelease = [\n  { version = "1.0" }\n]\n',
        'name = "demo"\nrelease = [\n    { version = "1.0" },\n  ]\n',
    ],
)
def test_other_forms_of_toml_are_decoded_as_a_whole(text: str) -> None:
    data = decode_lines(text, "demo.toml")
    assert dict(data) == tomllib.loads(text)
    (row,) = find_rows(Document("demo.toml", data), "release", "version", "1.0")
    assert row.index == 0


@pytest.mark.parametrize("text", ['release = [\n  { version = "1.0" },\n', "name = \n"])
def test_what_is_no_toml_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"line|document"):
        decode_lines(text, "demo.toml")


def test_an_array_that_is_missing_is_named() -> None:
    with pytest.raises(MatrixError, match=r"demo\.toml: other: expected an array of rows"):
        list(find_rows(document(TEXT), "other", "version", "1.0"))
