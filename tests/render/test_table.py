from __future__ import annotations

from envguard.render.page import PageSection, Style, page_text
from envguard.render.table import table_text

COLUMNS = ("torch", "runs", "why not")
ROWS = (
    ("2.11.0", "yes", ""),
    ("2.10.0", "no 1", "the driver is too old for the CUDA of this build"),
)


def test_columns_line_up_and_lines_end_without_spaces() -> None:
    assert table_text(COLUMNS, ROWS, Style(width=80)) == (
        "torch   runs  why not\n"
        "2.11.0  yes\n"
        "2.10.0  no 1  the driver is too old for the CUDA of this build\n"
    )


def test_the_last_column_wraps_where_there_is_little_room() -> None:
    assert table_text(COLUMNS, ROWS, Style(width=40)) == (
        "torch   runs  why not\n"
        "2.11.0  yes\n"
        "2.10.0  no 1  the driver is too old for\n"
        "              the CUDA of this build\n"
    )


def test_no_cell_is_cut_where_there_is_no_room() -> None:
    text = table_text(COLUMNS, ROWS, Style(width=18))
    assert text == (
        "2.11.0\n"
        "  runs     yes\n"
        "2.10.0\n"
        "  runs     no 1\n"
        "  why not  the\n"
        "           driver\n"
        "           is too\n"
        "           old for\n"
        "           the\n"
        "           CUDA of\n"
        "           this\n"
        "           build\n"
    )


def test_marks_are_coloured_by_their_first_word() -> None:
    coloured = Style(is_coloured=True, width=80)
    text = table_text(COLUMNS, ROWS, coloured, colours={"yes": "green", "no": "red"})
    assert "\x1b[32myes" in text
    assert "\x1b[31mno 1" in text
    assert "\x1b[32m2.11.0" not in text


def test_without_colour_nothing_is_escaped() -> None:
    plain = table_text(COLUMNS, ROWS, Style(width=80), colours={"yes": "green"})
    assert "\x1b" not in plain


def test_cells_are_no_markup() -> None:
    assert "[bold]x[/bold] :smile:" in table_text(
        ("a", "b"), (("1", "[bold]x[/bold] :smile:"),), Style(width=80)
    )


def test_a_table_without_rows_is_its_header() -> None:
    assert table_text(COLUMNS, (), Style(width=80)) == "torch  runs  why not\n"


def test_a_page_has_labels_steps_and_no_empty_sections() -> None:
    sections = (
        PageSection("means", ("It does not run.",)),
        PageSection("fix", ("First.", "Then."), is_numbered=True),
        PageSection("source", ()),
    )
    assert page_text("GPU001  a title", sections, Style(width=60)) == (
        "GPU001  a title\n\nmeans   It does not run.\n\nfix     1. First.\n        2. Then.\n"
    )


def test_a_page_wraps_under_its_labels() -> None:
    sections = (PageSection("fix", ("one two three four five",), is_numbered=True),)
    assert page_text("x", sections, Style(width=24)) == (
        "x\n\nfix     1. one two three\n           four five\n"
    )


def test_a_page_colours_labels() -> None:
    text = page_text("x", (PageSection("means", ("y",)),), Style(is_coloured=True))
    assert text == "\x1b[1mx\x1b[0m\n\n\x1b[36mmeans   \x1b[0my\n"
