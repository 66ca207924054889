"""The tables of packages: their releases with what they go with, and what holds for ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from envguard.errors import InputError
from envguard.facts.versions import CudaVersion
from envguard.matrix.fit import DriverGrade, grade_driver
from envguard.matrix.package_rows import Scope
from envguard.show.breaks import breaks_grid, breaks_of, sorted_specifier
from envguard.show.view import Grid, View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.machine import Gpu
    from envguard.matrix.loader import Matrix
    from envguard.matrix.package_rows import BuiltFor, PackageRange, PackageRelease
    from envguard.matrix.packages import PackageTable
    from envguard.show.target import Target

_COVERAGE = {
    "all": "every release",
    "minors": "the last patch of each minor",
    "months": "one release a month",
    "changes": "the releases that changed something",
}


def show_packages(matrix: Matrix, name: str, target: Target | None) -> View:
    """The packages that have a table, or one of them.

    Args:
        matrix: The tables.
        name: Of the distribution; empty for the list of all.
        target: GPUs, driver and Python that releases are marked against; None for no marks.

    Raises:
        InputError: It has no table.
    """
    if not name:
        return View((_list(matrix),))
    table = matrix.packages(canonicalize_name(name))
    if table is None:
        from difflib import get_close_matches

        near = ", ".join(get_close_matches(canonicalize_name(name), matrix.package_names, 3))
        raise InputError(
            f"packages {name}: no such package has a table",
            hint=f"did you mean: {near}?" if near else "`envguard matrix show packages` lists them",
        )
    return _one(matrix, table, target)


def _list(matrix: Matrix) -> Grid:
    rows = []
    for name in sorted(matrix.package_names):
        table = matrix.packages(name)
        if table is None:
            continue
        releases = table.releases
        newest = str(releases[-1].version) if releases else "-"
        cells = (str(len(releases)), newest, str(len(table.ranges())))
        rows.append((name, *cells, _COVERAGE[table.coverage.value] if releases else "ranges only"))
    return Grid("packages", ("package", "releases", "newest", "ranges", "rows for"), tuple(rows))


def _one(matrix: Matrix, table: PackageTable, target: Target | None) -> View:
    grids = []
    if table.releases:
        grids.append(_releases(matrix, table, target))
    ranges = _ranges(table)
    if ranges.rows:
        grids.append(ranges)
    known = breaks_of(matrix, table.name)
    if known:
        grids.append(breaks_grid(known))
    rows = f"rows for {_COVERAGE[table.coverage.value]}"
    if not table.releases:
        rows = "what holds for ranges of its releases" if ranges.rows else "known breaks only"
    notes = [f"{table.name}: {rows}"]
    if table.is_source_only:
        notes.append("PyPI holds its source only: it is compiled where it is installed")
    return View(tuple(grids), notes=tuple(notes))


def _releases(matrix: Matrix, table: PackageTable, target: Target | None) -> Grid:
    columns = ("release", "date", "torch", "CUDA", "Python")
    rows = [
        (
            str(release.version) + (" (yanked)" if release.is_yanked else ""),
            release.released or "-",
            _torch(release),
            _cuda(release),
            sorted_specifier(release.python) if release.python is not None else "-",
            *((_mark(matrix, table, release, target),) if target is not None else ()),
        )
        for release in reversed(table.releases)
    ]
    heading = (*columns, "here") if target is not None else columns
    return Grid(f"releases of {table.name}", heading, tuple(rows), wrapping=2)


def _torch(release: PackageRelease) -> str:
    bound = release.torch if release.torch is not None else release.requires.get("torch")
    if bound is None:
        return "-"
    return sorted_specifier(bound) or "any"


def _cuda(release: PackageRelease) -> str:
    if release.cuda is not None:
        return str(release.cuda)
    return " ".join(str(cuda) for cuda in release.libraries) or "-"


def _mark(matrix: Matrix, table: PackageTable, release: PackageRelease, target: Target) -> str:
    reasons = tuple(_against(matrix, table, release, target))
    return f"no: {'; '.join(reasons)}" if reasons else "yes"


def _against(
    matrix: Matrix, table: PackageTable, release: PackageRelease, target: Target
) -> Iterator[str]:
    """Why a release does not run; PyPI's wheel is what is looked at."""
    if release.python is not None and not target.admits_python(release.python):
        yield f"Python {sorted_specifier(release.python)}, not {target.python}"
    elif target.python_tag and release.pythons and not _has_wheel(release, target.python_tag):
        yield f"no wheel for {target.python_tag}"
    if release.cuda is not None:
        yield from _driver_against(matrix, release.cuda, target)
    for row in table.ranges(release.version):
        if row.capability is not None and row.scope is not Scope.FEATURE:
            old = [gpu for gpu in target.machine.selected_gpus if _is_older(gpu, row)]
            if old:
                yield f"needs compute capability {row.capability}, the GPU has {old[0].capability}"


def _has_wheel(release: PackageRelease, tag: str) -> bool:
    """Whether a wheel serves a Python: its own, one of the stable ABI, or one without code."""
    if tag in release.pythons:
        return True
    older = (
        _minor(stated)
        for stated in release.pythons
        if stated.startswith("py3") or (stated.endswith("-abi3") and not tag.endswith("t"))
    )
    return any(minor <= _minor(tag) for minor in older)


def _minor(tag: str) -> int:
    """12 of ``cp312``, ``py312`` and ``cp312-abi3``; 0 of ``py3``."""
    digits = tag.partition("-")[0].rstrip("t")[3:]
    return int(digits) if digits.isdecimal() else 0


def _is_older(gpu: Gpu, row: PackageRange) -> bool:
    needed, has = row.capability, gpu.capability
    return needed is not None and has is not None and has < needed


def _driver_against(matrix: Matrix, built: BuiltFor, target: Target) -> Iterator[str]:
    if built.major is None or not target.has_driver:
        return
    # of a major alone its first release says which drivers serve it
    cuda = built.cuda or CudaVersion(built.major, 0)
    fit = grade_driver(target.machine.driver, target.machine.host, cuda, matrix.drivers)
    if fit.grade is DriverGrade.NO:
        yield f"its CUDA {built} needs driver {fit.floor or fit.exact}"


def _ranges(table: PackageTable) -> Grid:
    said = ((row, "; ".join(_says(row))) for row in table.ranges())
    rows = tuple((sorted_specifier(row.versions) or "any", words) for row, words in said if words)
    return Grid(f"what holds for ranges of {table.name}", ("releases", "what holds"), rows)


def _says(row: PackageRange) -> Iterator[str]:
    """What a range says, in words."""
    if row.foreign:
        yield f"is {row.foreign}"
    if row.abi is not None:
        yield {
            "classic": "compiled for one torch",
            "stable": "compiled on torch's stable ABI",
            "none": "holds no code that is tied to torch",
        }[row.abi.value]
    if row.torch is not None:
        yield f"goes with torch {sorted_specifier(row.torch)}"
    if row.loads is not None:
        yield f"loads its code beside torch {sorted_specifier(row.loads)}"
    if row.cuda is not None:
        yield f"PyPI's wheel is for {row.cuda if row.cuda.major is None else f'CUDA {row.cuda}'}"
    if row.capability is not None:
        of = f" for {row.feature}" if row.feature else ""
        yield f"needs compute capability {row.capability}{of}"
    if row.cxx_min is not None:
        yield f"its headers want C++{row.cxx_min}"
    if row.gcc_min is not None:
        yield f"GCC {row.gcc_min} or newer"
    if row.python is not None:
        yield f"Python {sorted_specifier(row.python)}"
    for name, bound in row.declares.items():
        yield f"requires {name}{sorted_specifier(bound)}"
    for name, bound in row.needs.items():
        yield f"{row.feature or 'it'} needs {name}{sorted_specifier(bound)}"
