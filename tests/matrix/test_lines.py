from __future__ import annotations

import tomllib

import pytest

from envguard.errors import MatrixError
from envguard.matrix.lines import (
    LineData,
    decode_lines,
    find_rows,
    rows_naming,
    rows_with_words,
)
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
TABLES = sorted(
    str(path.relative_to(ROOT / "compat_matrix"))
    for path in (ROOT / "compat_matrix").rglob("*.toml")
    if path.name != "manifest.toml"
)


def document(text: str) -> Document:
    return Document("demo.toml", decode_lines(text, "demo.toml"))


def test_a_table_decodes_to_what_toml_says() -> None:
    data = decode_lines(TEXT, "demo.toml")
    assert isinstance(data, LineData)
    assert dict(data) == tomllib.loads(TEXT)
    assert len(data) == 4


@pytest.mark.parametrize("name", TABLES)
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


def test_rows_are_found_by_one_of_their_words() -> None:
    text = """\
build = [
  { torch = "1.10.0 1.10.1", note = "not torch = 1.1" },
  { torch = "1.1.0" },
  { torch = what },
]
"""
    for word, rows in (("1.10.1", [0]), ("1.1.0", [1]), ("1.10", []), ("1.1", [])):
        found = rows_naming(document(text), "build", "torch", word)
        assert [row.index for row in found] == rows, word
    whole = Document("demo.toml", tomllib.loads(text.replace("what", '"1.2"')))
    assert [row.index for row in rows_naming(whole, "build", "torch", "1.10.0")] == [0]


def test_two_rows_on_one_line_are_no_row() -> None:
    data = document(TEXT.replace('"==2.0", ', '"==2.0" }, { ')).data
    with pytest.raises(MatrixError, match=r"demo\.toml: release\[0\]: is not valid TOML: "):
        _ = data["release"]


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


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ('{ a = "x = 1, y", b-c = true, d = 12 }', {"a": "x = 1, y", "b-c": True, "d": 12}),
        ('{ when = { torch = ">=2", é = "" } }', None),
        (
            '{ when = { torch = ">=2", cuda = "" }, also = ["a", "b"] }',
            {"when": {"torch": ">=2", "cuda": ""}, "also": ["a", "b"]},
        ),
        ('{ title = "20 µs, naïve: 3°" }', {"title": "20 µs, naïve: 3°"}),
        ('{ quoted = "a \\"b\\" c", tab = "\\t" }', {"quoted": 'a "b" c', "tab": "\t"}),
        ("{ half = 0.5, day = 2026-11-29T00:00:00Z }", {"half": 0.5}),
        ('{ a = "1", a = "2" }', None),
        ('{ a = "1", b = { c = "1", c = "2" } }', None),
        ('{ "a": "1" }', None),
        ("{ a = null }", None),
        ("{ a = 012 }", None),
        ('{ a = b = "1" }', None),
        ('{ a = "1" b = "2" }', None),
        ('{ a = "tab\tinside" }', {"a": "tab\tinside"}),
        ('{ a = "bell\x07" }', None),
    ],
)
def test_a_row_reads_as_toml_reads_it(text: str, decoded: dict[str, object] | None) -> None:
    data = decode_lines(f"row = [\n  {text},\n]\n", "demo.toml")
    assert isinstance(data, LineData)
    if decoded is None:
        with pytest.raises(MatrixError, match=r"row\[0\]: is not valid TOML"):
            data.row("row", 0)
    else:
        assert decoded.items() <= data.row("row", 0).items()
        assert data.row("row", 0) == tomllib.loads(f"row = {text}")["row"]


def test_rows_without_the_words_are_not_decoded() -> None:
    text = 'gpu = [\n  { name = what },\n  { name = "Tesla V100" },\n]\n'
    (row,) = rows_with_words(document(text), "gpu", ["v100", "tesla"])
    assert row.index == 1


def test_words_are_found_in_any_case_and_whatever_is_escaped_is_shown() -> None:
    text = (
        'gpu = [\n  { name = "Tesla V100" },\n  { name = "\\u0056100" },\n  { name = "T4" },\n]\n'
    )
    found = rows_with_words(document(text), "gpu", ["v100"])
    assert [row.data["name"] for row in found] == ["Tesla V100", "V100"]


def test_a_table_in_another_form_shows_every_row() -> None:
    whole = Document("demo.toml", tomllib.loads(TEXT))
    assert [row.index for row in rows_with_words(whole, "release", ["1.1"])] == [0, 1]
