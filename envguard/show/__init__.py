"""Tables of the matrix as a person reads them: what runs here, what does not, and why."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from envguard.show.target import COLOURS, Grid, ShownTarget, View, make_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from envguard.matrix.loader import Matrix

__all__ = ["COLOURS", "TABLES", "Grid", "ShownTarget", "View", "make_target", "show_table"]

# Table -> module that holds ``show_<table>``; only the one that is asked for is imported.
TABLES = {
    "torch": "envguard.show.torch_builds",
    "drivers": "envguard.show.drivers",
    "gpus": "envguard.show.gpus",
    "deepspeed": "envguard.show.packages",
    "packages": "envguard.show.packages",
    "breaks": "envguard.show.packages",
    "toolkits": "envguard.show.drivers",
}


def show_table(table: str, matrix: Matrix, name: str, target: ShownTarget | None) -> View:
    """Make the view of one of ``TABLES``.

    Args:
        table: Which.
        matrix: The tables.
        name: One entry of it, or a part; empty for all.
        target: What rows are marked against; None for no marks.

    Raises:
        InputError: It has no such entry.
    """
    module = importlib.import_module(TABLES[table])
    show = cast(
        "Callable[[Matrix, str, ShownTarget | None], View]", getattr(module, f"show_{table}")
    )
    return show(matrix, name, target)
