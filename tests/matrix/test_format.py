from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest
import tomli_w

from scripts.format_tables import FormatError, format_table, main
from tests.matrix.conftest import ROOT, in_rows

if TYPE_CHECKING:
    from pathlib import Path

    Capture = pytest.CaptureFixture[str]

FORM = """\
# What the table is about.

name = "demo"  # beside a value
few = ["a", "b"]

# before a row
[[signature]]
source = "s"
regex = "a\\\\d \\"b\\""
id = 'one' # beside a field
# before a field
new = true

[sources]
t = { url = "https://docs.example/t", checked = "2026-11-29" }
s = { url = "https://docs.example/", checked = "2026-11-29" }
"""
FORMED = """\
# What the table is about.

# beside a value
name = "demo"
few = ["a", "b"]

# before a row
[[signature]]
# beside a field
id = "one"
regex = '''a\\d "b"'''
# before a field
new = true
source = "s"

[sources]
s = { url = "https://docs.example/", checked = "2026-11-29" }
t = { url = "https://docs.example/t", checked = "2026-11-29" }
"""


def test_the_tables_are_in_their_form(capsys: Capture) -> None:
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == ""


def test_a_table_in_another_form_is_named_and_then_formatted(
    capsys: Capture, tmp_path: Path
) -> None:
    path, formed = tmp_path / "drivers.toml", (ROOT / "compat_matrix/drivers.toml").read_text()
    path.write_text(in_rows(formed))
    words = ["--matrix", str(tmp_path)]
    assert main([*words, "--check"]) == 1
    assert capsys.readouterr().out == f"not in form: {path}\n"
    assert main(words) == 0
    assert path.read_text() == formed


def test_comments_stay_and_fields_are_ordered() -> None:
    assert format_table(FORM) == FORMED
    assert format_table(FORMED) == FORMED


@pytest.mark.parametrize(
    "text",
    [
        "long " * 60 + "end",
        '"quoted" ' * 30 + 'and """ at the "end"',
        "two  spaces " * 20,
        " before " * 20,
        "a\\b " * 40,
        "it's \\d" * 30,
        "line\nline " * 30,
        "\x7f\t\x00",
        "x" * 300,
        "'''",
        "ends in '",
        "",
    ],
)
@pytest.mark.parametrize("field", ["text", "regex"])
def test_every_text_stays_what_it_is(field: str, text: str) -> None:
    data = {"row": [{field: text, "table": {"a.b": text}, "list": [text, text]}]}
    formed = format_table(tomli_w.dumps(data))
    assert tomllib.loads(formed) == data
    assert format_table(formed) == formed


def test_a_list_with_comments_stays_as_it_is_written() -> None:
    text = 'order = [\n  "b", # first, for a reason\n  "a",\n]\n'
    assert format_table(text) == text


def test_rows_inside_a_row_follow_it() -> None:
    text = (
        '[[cause]]\nslug = "a"\n[[cause.shown]]\nany = ["x"]\nsays = "a.b"\n# why\n'
        '[[cause.says]]\ntitle = "t"\nid = "a.b"\n[[cause]]\nsource = "s"\nslug = "b"\n'
    )
    formed = format_table(text)
    assert formed == (
        '[[cause]]\nslug = "a"\n\n[[cause.shown]]\nsays = "a.b"\nany = ["x"]\n\n# why\n'
        '[[cause.says]]\nid = "a.b"\ntitle = "t"\n\n[[cause]]\nslug = "b"\nsource = "s"\n'
    )
    assert format_table(formed) == formed


def test_dotted_fields_that_stand_apart_are_one() -> None:
    text = '[[release]]\nrequires.a = "1"\nversion = "2"\nrequires.b = "3"\n'
    formed = format_table(text)
    assert formed == '[[release]]\nversion = "2"\nrequires = { a = "1", b = "3" }\n'


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(FormatError, match="date has no place in a table"):
        format_table("day = 2026-11-29\n")
    with pytest.raises(FormatError, match="a comment stands where"):
        format_table("row = [\n  { a = 1 }, # beside\n]\n")


def test_what_is_no_table_is_named(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("a = [\n")
    assert main(["--matrix", str(tmp_path)]) == 2
    assert "broken.toml: " in capsys.readouterr().err
