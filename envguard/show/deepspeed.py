"""The DeepSpeed table: what each release requires, builds its ops with and was tested on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.errors import InputError
from envguard.matrix.package_rows import Scope
from envguard.show.breaks import breaks_grid, breaks_of, sorted_specifier
from envguard.show.view import Grid, View

if TYPE_CHECKING:
    from collections.abc import Iterable

    from envguard.facts.versions import CudaVersion
    from envguard.matrix.deepspeed import DeepspeedRelease
    from envguard.matrix.loader import Matrix
    from envguard.show.target import Target

_COLUMNS = ("deepspeed", "released", "Python", "numpy", "pydantic", "mixes CUDA", "tested with")
_LEGEND = (
    "mixes CUDA: minors that toolkit and torch may differ among when ops are built; other minors "
    "have to be equal, or DS_SKIP_CUDA_CHECK=1",
    "tested with: the newest torch that its makers' tests ran on",
)


_GRAVE = frozenset({Scope.IMPORT, Scope.RUNTIME})


def show_deepspeed(matrix: Matrix, name: str, target: Target | None) -> View:
    """DeepSpeed releases; one of them with what is known to break.

    Args:
        matrix: The tables.
        name: A release; empty for all.
        target: Its Python, and toolkit against torch's CUDA, are marked; None for no marks.

    Raises:
        InputError: There is no such release.
    """
    rows = [row for row in reversed(matrix.deepspeed.releases) if _is_named(row, name)]
    if not rows:
        newest = matrix.deepspeed.releases[-1].version
        raise InputError(
            f"deepspeed {name}: no such release is known", hint=f"the newest known is {newest}"
        )
    is_marked = target is not None and target.python is not None
    grid = Grid(
        "DeepSpeed releases",
        (*_COLUMNS, "here") if is_marked else _COLUMNS,
        tuple(_row(matrix, row, target, is_marked=is_marked) for row in rows),
        wrapping=3 if is_marked else 2,
    )
    if not name:
        return View((grid,), _LEGEND)
    known = [row for row in breaks_of(matrix, "deepspeed") if _concerns(rows[0], row.when)]
    return View((grid, breaks_grid(known)) if known else (grid,), _LEGEND)


def _is_named(row: DeepspeedRelease, name: str) -> bool:
    try:
        return not name or row.version == Version(name)
    except ValueError as err:  # InvalidVersion, or more digits than Python reads
        raise InputError(f"deepspeed {name}: {name!r} is no version") from err


def _concerns(row: DeepspeedRelease, when: object) -> bool:
    bound = when.get("deepspeed") if isinstance(when, dict) else None
    return bound is None or bound.contains(row.version, prereleases=True)


def _row(
    matrix: Matrix, row: DeepspeedRelease, target: Target | None, *, is_marked: bool
) -> tuple[str, ...]:
    release = matrix.deepspeed.packages.release(row.version)
    requires = release.requires if release else {}
    cells = (
        str(row.version),
        release.released if release else "-",
        _bound(release.python if release else None),
        _bound(requires.get("numpy")),
        _bound(requires.get("pydantic")),
        ", ".join(_span(minors) for _, minors in sorted(row.mixes.items())) or "-",
        _newest_tested(row),
    )
    return (*cells, _mark(matrix, row, target)) if is_marked and target else cells


def _bound(specifier: SpecifierSet | None) -> str:
    return sorted_specifier(specifier or SpecifierSet()) or "any"


def _span(minors: Iterable[CudaVersion]) -> str:
    """CUDA minors of one major in a few words: ``12.0-12.6 12.8``."""
    runs: list[list[CudaVersion]] = []
    for cuda in sorted(minors):
        if runs and cuda.minor == runs[-1][-1].minor + 1:
            runs[-1].append(cuda)
        else:
            runs.append([cuda])
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _newest_tested(row: DeepspeedRelease) -> str:
    return row.tested[-1] if row.tested else "-"


def _mark(matrix: Matrix, row: DeepspeedRelease, target: Target) -> str:
    release = matrix.deepspeed.packages.release(row.version)
    python = release.python if release else None
    if python is not None and not target.admits_python(python):
        return f"no: its metadata want Python {sorted_specifier(python)}"
    broken = (
        known.title
        for known in matrix.breaks.about({"deepspeed", "python"})
        if known.scope in _GRAVE
        and not (known.predicate or known.feature)
        and "python" in known.when
        and target.admits_python(known.when["python"])
        and _concerns(row, known.when)
    )
    title = next(broken, None)
    return f"no: {title}" if title else "yes"
