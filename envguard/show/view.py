"""What a view of a table consists of: grids of short texts, a legend, and the rows as records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# First word of a cell -> its colour.
COLOURS: Mapping[str, str] = {
    "yes": "green",
    "most": "yellow",
    "compat": "yellow",
    "?": "yellow",
    "no": "red",
    "-": "dim",
}


@dataclass(frozen=True, slots=True)
class Grid:
    """One table of a view.

    Args:
        title: What it is; the key of its rows in a document.
        columns: Headings.
        rows: As many texts each as there are columns.
        wrapping: How many of the last columns give way where there is little room.
        records: The rows for programs; None where the texts serve.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    wrapping: int = 1
    records: tuple[Mapping[str, Any], ...] | None = None

    def documents(self) -> list[dict[str, Any]]:
        """The rows for programs: the records, or the texts by heading."""
        if self.records is not None:
            return [dict(record) for record in self.records]
        keys = [column.lower().replace(" ", "_") for column in self.columns]
        return [dict(zip(keys, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class View:
    """A table of the matrix, or one entry of it.

    Args:
        grids: In the order to show.
        legend: What marks mean, and the reasons in words.
        notes: Shown first.
    """

    grids: tuple[Grid, ...]
    legend: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
