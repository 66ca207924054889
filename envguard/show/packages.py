"""The tables of packages: releases with what they go with, DeepSpeed's, and known breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.versions import CudaVersion
from envguard.fit import DriverGrade, grade_driver
from envguard.matrix.packages import BreakScope
from envguard.show.target import Grid, View

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from envguard.facts.machine import Gpu
    from envguard.matrix.breaks import Break
    from envguard.matrix.deepspeed import DeepspeedRelease
    from envguard.matrix.loader import Matrix
    from envguard.matrix.packages import BuiltFor, PackageRange, PackageRelease, PackageTable
    from envguard.show.target import ShownTarget


_NAMES = {"torch_cuda": "torch's CUDA", "cuda_toolkit": "toolkit", "python": "Python"}


def show_breaks(matrix: Matrix, name: str, target: ShownTarget | None) -> View:
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


_COLUMNS = ("deepspeed", "released", "Python", "numpy", "pydantic", "mixes CUDA", "tested with")
_LEGEND = (
    "mixes CUDA: minors that toolkit and torch may differ among when ops are built; other minors "
    "have to be equal, or DS_SKIP_CUDA_CHECK=1",
    "tested with: the newest torch that its makers' tests ran on",
)


_GRAVE = frozenset({BreakScope.IMPORT, BreakScope.RUNTIME})


def show_deepspeed(matrix: Matrix, name: str, target: ShownTarget | None) -> View:
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
    matrix: Matrix, row: DeepspeedRelease, target: ShownTarget | None, *, is_marked: bool
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
    return (*cells, _mark_release(matrix, row, target)) if is_marked and target else cells


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


def _mark_release(matrix: Matrix, row: DeepspeedRelease, target: ShownTarget) -> str:
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


_COVERAGE = {
    "all": "every release",
    "minors": "the last patch of each minor",
    "months": "one release a month",
    "changes": "the releases that changed something",
}


def show_packages(matrix: Matrix, name: str, target: ShownTarget | None) -> View:
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


def _one(matrix: Matrix, table: PackageTable, target: ShownTarget | None) -> View:
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


def _releases(matrix: Matrix, table: PackageTable, target: ShownTarget | None) -> Grid:
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


def _mark(matrix: Matrix, table: PackageTable, release: PackageRelease, target: ShownTarget) -> str:
    reasons = tuple(_against(matrix, table, release, target))
    return f"no: {'; '.join(reasons)}" if reasons else "yes"


def _against(
    matrix: Matrix, table: PackageTable, release: PackageRelease, target: ShownTarget
) -> Iterator[str]:
    """Why a release does not run; PyPI's wheel is what is looked at."""
    if release.python is not None and not target.admits_python(release.python):
        yield f"Python {sorted_specifier(release.python)}, not {target.python}"
    elif target.python_tag and release.pythons and not _has_wheel(release, target.python_tag):
        yield f"no wheel for {target.python_tag}"
    if release.cuda is not None:
        yield from _driver_against(matrix, release.cuda, target)
    for row in table.ranges(release.version):
        if row.capability is not None and row.scope is not BreakScope.FEATURE:
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


def _driver_against(matrix: Matrix, built: BuiltFor, target: ShownTarget) -> Iterator[str]:
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
