"""Tables for a terminal: columns that wrap, marks in colour, nothing but ASCII around them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from envguard.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from envguard.render.page import Style

_GAP = 2


def table_text(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    style: Style,
    *,
    colours: Mapping[str, str] | None = None,
    wrapping: int = 1,
) -> str:
    """Render rows under a header.

    Args:
        columns: Headings.
        rows: As many cells each as there are columns.
        style: How it looks; its width is kept, by wrapping cells.
        colours: First word of a cell -> its colour.
        wrapping: How many of the last columns give way first where the width does not do.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    if _least_width(columns, rows, wrapping) > style.width:
        return _blocks(columns, rows, style)
    return _table(columns, rows, style, colours or {}, wrapping)


def _least_width(columns: Sequence[str], rows: Sequence[Sequence[str]], wrapping: int) -> int:
    """The width below which a cell would be cut: key columns whole, the others by words."""
    first_wrapping = len(columns) - wrapping
    widths = (
        max(
            len(part)
            for row in (columns, *rows)
            for part in ([row[number]] if number < first_wrapping else row[number].split() or [""])
        )
        for number in range(len(columns))
    )
    return sum(width + _GAP for width in widths) - _GAP


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[str]], style: Style) -> str:
    """One cell a line, where the screen is too narrow for columns; empty cells are left out."""
    label = max(len(column) for column in columns) + _GAP
    lines = []
    for row in rows:
        lines.append(style.paint(row[0], "bold"))
        for heading, cell in zip(columns[1:], row[1:], strict=True):
            if cell not in {"", "-"}:
                first = f"  {heading:<{label}}"
                lines += textwrap.wrap(
                    cell, style.width, initial_indent=first, subsequent_indent=" " * len(first)
                )
    return "\n".join(lines) + "\n"


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    style: Style,
    colours: Mapping[str, str],
    wrapping: int,
) -> str:
    import io

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_edge=False, pad_edge=False, padding=(0, _GAP, 0, 0))
    table.header_style = "dim"
    for number, heading in enumerate(columns):
        is_key = number < len(columns) - wrapping
        table.add_column(Text(heading), no_wrap=is_key, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=_colour(cell, colours)) for cell in row))
    screen = Console(
        file=io.StringIO(),
        width=style.width,
        color_system="standard" if style.is_coloured else None,
        force_terminal=style.is_coloured,
        legacy_windows=False,
        highlight=False,
    )
    with screen.capture() as captured:
        screen.print(table)
    lines = captured.get().splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _colour(cell: str, colours: Mapping[str, str]) -> str:
    return colours.get(cell.partition(" ")[0], "")
