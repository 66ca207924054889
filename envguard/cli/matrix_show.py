"""``envguard matrix show``: a table for a person, what runs here told from what does not."""

from __future__ import annotations

import os
import textwrap
from dataclasses import astuple, replace
from typing import TYPE_CHECKING

from envguard.cli.out import write_page
from envguard.cli.subject import check_gpu_names, live_facts, overlay_neighbours, read_stated
from envguard.cli.tables import load_matrix
from envguard.errors import ExitCode, InputError
from envguard.ingest.stated import apply_stated, stated_facts
from envguard.render.table import table_text
from envguard.show import COLOURS, TABLES, Grid, View, make_target, show_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.cli.options import MachineOptions
    from envguard.cli.out import PageOptions
    from envguard.facts.facts import Facts
    from envguard.matrix.loader import Matrix
    from envguard.render.page import Style

_ABOUT = {
    "torch": "releases against CUDA builds, code, wheels",
    "drivers": "CUDA releases, driver branches, GPU generations",
    "gpus": "products and their compute capability",
    "deepspeed": "releases, what they require and build with",
    "packages": "releases of packages that go with torch",
    "breaks": "combinations that are known to break",
    "toolkits": "host compilers of CUDA toolkits",
}


def show(
    table: str | None, name: str, options: MachineOptions, page: PageOptions, *, here: bool
) -> int:
    """Show a table, or list them.

    Raises:
        InputError: There is no such table or entry, or the machine cannot be read.
    """
    matrix = load_matrix(page.matrix)
    if table is None:
        view, words = _tables(matrix), ""
    else:
        if table not in TABLES:
            raise InputError(
                f"matrix show {table}: no such table", hint=f"there are {', '.join(TABLES)}"
            )
        facts, remarks = _machine(options, matrix, here=here)
        target = make_target(facts, matrix) if facts is not None else None
        words = target.words if target else ""
        view = show_table(table, matrix, name, target)
        view = replace(view, notes=(*view.notes, *remarks, *(target.troubles if target else ())))
    body = {
        "table": table,
        "name": name or None,
        "machine": words or None,
        "notes": list(view.notes),
        "legend": list(view.legend),
        "grids": [{"title": grid.title, "rows": grid.documents()} for grid in view.grids],
    }

    def text(style: Style) -> str:
        sources = _sources(matrix, table, name) if style.is_verbose else ()
        return "\n".join(_view_lines(view, words, matrix, sources, style))

    write_page(page, matrix.manifest.data_version, command="matrix show", body=body, text=text)
    return ExitCode.FITS


def _machine(
    options: MachineOptions, matrix: Matrix, *, here: bool
) -> tuple[Facts | None, tuple[str, ...]]:
    """The machine that rows are marked against; None where nothing is stated."""
    stated = read_stated(options)
    check_gpu_names(stated, matrix)
    if len(options.machine) > 1:
        raise InputError("--machine: one machine at a time")
    if options.machine and here:
        raise InputError("--machine and --here exclude each other: the file is another machine")
    if options.machine:
        from envguard.cli.inputs import read_facts

        return apply_stated(read_facts(str(options.machine[0])), stated)
    if here:
        facts, overruled = apply_stated(live_facts(None), stated)
        facts, taken = overlay_neighbours(facts, stated, os.environ)
        return facts, (*overruled, *taken)
    return stated_facts(stated) if any(astuple(options)) else (None, ())


def _tables(matrix: Matrix) -> View:
    """The tables that can be shown, and how many rows they hold."""
    rows = tuple(
        (table, str(_count(matrix, table)), _checked(matrix, table), _ABOUT[table])
        for table in TABLES
    )
    notes = (
        f"tables of {matrix.manifest.data_version}; `envguard matrix show TABLE [NAME]` shows one",
    )
    return View((Grid("tables", ("table", "rows", "checked", "about"), rows),), notes=notes)


def _files(matrix: Matrix, table: str) -> tuple[str, ...]:
    if table == "packages":
        names = sorted(matrix.package_names - {"deepspeed"})
        return tuple(f"packages/{name}.toml" for name in names)
    return (f"{table}.toml",)


def _count(matrix: Matrix, table: str) -> int:
    arrays = (
        value
        for file in _files(matrix, table)
        for value in matrix.document(file).data.values()
        if isinstance(value, list)
    )
    return sum(len(array) for array in arrays)


def _checked(matrix: Matrix, table: str) -> str:
    dates = [
        source.checked
        for file in _files(matrix, table)
        for source in matrix.document(file).sources.values()
    ]
    return max(dates, default="-")


def _sources(matrix: Matrix, table: str | None, name: str) -> tuple[str, ...]:
    """Where the rows of a table come from."""
    from packaging.utils import canonicalize_name

    package = canonicalize_name(name)
    if table is None or (table == "packages" and not package):
        return ()
    own = "deepspeed.toml" if package == "deepspeed" else f"packages/{package}.toml"
    document = matrix.document(own if table == "packages" else f"{table}.toml")
    return tuple(f"{s.url} (checked {s.checked})" for s in document.sources.values())


def _view_lines(
    view: View, words: str, matrix: Matrix, sources: tuple[str, ...], style: Style
) -> Iterator[str]:
    if not style.is_quiet:
        heading = (*((f"for {words}",) if words else ()), *view.notes)
        for line in heading:
            yield from _wrapped(line, style)
        if heading:
            yield ""
    for number, grid in enumerate(view.grids):
        if number:
            yield ""
        if len(view.grids) > 1:
            yield style.paint(grid.title, "bold")
        yield _grid_text(grid, style)
    if not style.is_quiet:
        yield from _footer(view, matrix, sources, style)


def _grid_text(grid: Grid, style: Style) -> str:
    text = table_text(grid.columns, grid.rows, style, colours=COLOURS, wrapping=grid.wrapping)
    return text.rstrip("\n")


def _footer(view: View, matrix: Matrix, sources: tuple[str, ...], style: Style) -> Iterator[str]:
    if view.legend:
        yield ""
    for line in view.legend:
        yield from _wrapped(line, style)
    if sources:
        yield ""
    for line in sources:
        yield from (style.paint(part, "dim") for part in _wrapped(line, style))
    yield ""
    yield style.paint(f"matrix {matrix.manifest.data_version}", "dim")


def _wrapped(text: str, style: Style) -> list[str]:
    return textwrap.wrap(
        text, style.width, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False
    )
