"""The breaks table: combinations that are known to break, and what mends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.show.view import Grid, View

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packaging.specifiers import SpecifierSet

    from envguard.matrix.breaks import Break
    from envguard.matrix.loader import Matrix
    from envguard.show.target import Target

_NAMES = {"torch_cuda": "torch's CUDA", "cuda_toolkit": "toolkit", "python": "Python"}


def show_breaks(matrix: Matrix, name: str, target: Target | None) -> View:
    """Known breaks; of one package, one cause, or one row by its name.

    Args:
        matrix: The tables.
        name: Of a package, a cause or a row; empty for all.
        target: Not looked at: a break is about packages.

    Raises:
        InputError: Nothing is known under that name.
    """
    rows = breaks_of(matrix, name)
    if not rows:
        raise InputError(
            f"breaks {name}: nothing is known under that name",
            hint="name a package, a cause or a row; `envguard matrix show breaks` lists all",
        )
    return View((breaks_grid(rows),))


def breaks_of(matrix: Matrix, name: str) -> tuple[Break, ...]:
    """The rows about a package, of a cause, or of that name; all for an empty one."""
    return tuple(row for row in matrix.breaks.all if not name or name.lower() in _names(row))


def _names(row: Break) -> set[str]:
    subjects = {*row.when, *row.any_of} - _NAMES.keys()
    return {row.name, row.cause, row.beside, *subjects}


def breaks_grid(rows: Sequence[Break]) -> Grid:
    """Rows as a grid: where it happens, what happens, what mends it."""
    return Grid(
        "known breaks",
        ("where", "bites", "what happens", "fix"),
        tuple((_where(row), row.scope.value, row.title, _fix(row)) for row in rows),
        wrapping=4,
        records=tuple(
            {
                "name": row.name,
                "when": _texts(row.when),
                "any_of": _texts(row.any_of),
                "platform": row.platform or None,
                "scope": row.scope.value,
                "cause": row.cause,
                "title": row.title,
                "text": row.text,
                "fix": _texts(row.fix),
                "workaround": row.workaround or None,
                "source": row.provenance.source.url,
            }
            for row in rows
        ),
    )


def _texts(bounds: Mapping[str, SpecifierSet]) -> dict[str, str]:
    return {name: sorted_specifier(bound) for name, bound in bounds.items()}


def sorted_specifier(specifier: SpecifierSet) -> str:
    """A specifier with its lower bound first: packaging prints it in no order."""
    order = {">": 0, "~": 1, "=": 2, "<": 3, "!": 4}
    return ",".join(sorted(map(str, specifier), key=lambda text: (order[text[0]], text)))


def _where(row: Break) -> str:
    parts = [f"{_NAMES.get(n, n)} {sorted_specifier(b)}" for n, b in row.when.items()]
    if row.any_of:
        parts.append(" or ".join(f"{n} {sorted_specifier(b)}" for n, b in row.any_of.items()))
    parts += [part for part in (row.platform, f"beside {row.beside}" * bool(row.beside)) if part]
    return ", ".join(part.strip() for part in parts)


def _fix(row: Break) -> str:
    pins = [f"{name}{sorted_specifier(bound)}" for name, bound in row.fix.items()]
    pins += [f"{name}{sorted_specifier(bound)}" for name, bound in row.alternative.items()]
    return " or ".join(_filled((*pins, row.workaround))) or "-"


def _filled(texts: Iterable[str]) -> list[str]:
    return [text for text in texts if text]
