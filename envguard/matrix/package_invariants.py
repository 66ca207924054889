"""Proves what the tables about packages, DeepSpeed and known breaks promise about themselves."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.errors import MatrixError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from envguard.matrix.loader import Matrix
    from envguard.matrix.packages import PackageTable
    from envguard.matrix.reading import Document, Row

_VERSIONED = ("release", "prebuilt", "binary", "imported")


def _documents(matrix: Matrix) -> Iterator[Document]:
    for name in sorted(matrix.package_names):
        table = _table(matrix, name)
        if table is not None:
            yield table.document
    yield matrix.breaks.document


def _table(matrix: Matrix, name: str) -> PackageTable | None:
    """The table, or None where it does not load, which is said elsewhere."""
    try:
        return matrix.packages(name)
    except MatrixError:
        return None


def _arrays(document: Document) -> Iterator[str]:
    for name, value in document.data.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield name


def check_packages_load(matrix: Matrix) -> Iterator[str]:
    """Every row of every table has its fields, and a table is named like its file."""
    for name in sorted(matrix.package_names):
        try:
            table = matrix.packages(name)
            if table is None or table.name != name:
                yield f"packages/{name}.toml: name: expected {name!r}"
                continue
            for release in table.releases:
                table.prebuilt(release.version)
            table.ranges()
        except MatrixError as err:
            yield err.message
    for read in (lambda: matrix.breaks.all, lambda: matrix.deepspeed.releases):
        try:
            read()
        except MatrixError as err:
            yield err.message


def check_package_sources(matrix: Matrix) -> Iterator[str]:
    """Every row names sources that are there, and every source is named."""
    for document in _documents(matrix):
        used: set[str] = set()
        for array in _arrays(document):
            for row in document.rows(array):
                try:
                    row.provenance()
                    used.update(row.words("source"))
                except MatrixError as err:
                    yield err.message
        for key, source in document.sources.items():
            if key not in used:
                yield f"{document.name}: sources.{key}: no row names this source"
            if source.checked.replace("-", ".") > matrix.manifest.data_version:
                yield f"{document.name}: sources.{key}.checked: {source.checked} lies ahead"


def check_package_order(matrix: Matrix) -> Iterator[str]:
    """Releases rise and are stated once; breaks are sorted by name and stated once."""
    for document in _documents(matrix):
        for array in _VERSIONED:
            if array in document.data:
                yield from _rising(list(document.rows(array)), strict=array != "binary")
    rows = list(matrix.breaks.document.rows("break"))
    for before, after in pairwise(rows):
        if after.text("id") <= before.text("id"):
            yield after.error("id", "stands out of order, or twice").message


def _rising(rows: list[Row], *, strict: bool) -> Iterator[str]:
    for before, after in pairwise(rows):
        first, second = (row.text("version") for row in (before, after))
        if "@" in first + second:
            continue  # a branch
        older, newer = before.value("version", Version), after.value("version", Version)
        if newer < older or (strict and newer == older):
            yield after.error("version", f"{newer} stands after {older}").message


def check_companions_agree(matrix: Matrix) -> Iterator[str]:
    """What two tables say about torchvision and torchaudio is the same."""
    for companion in matrix.libs.companions:
        table = _table(matrix, companion.package)
        release = table.release(companion.version) if table else None
        if release is None:
            continue
        where = f"packages/{companion.package}.toml: {companion.version}"
        required = release.requires.get("torch")
        if required is not None and required != companion.torch and "+" not in str(required):
            yield f"{where}: torch{required}, torch_libs.toml says torch{companion.torch}"
        if release.cuda and release.cuda.cuda != companion.backend.cuda:
            yield f"{where}: CUDA {release.cuda}, torch_libs.toml says {companion.backend}"


def check_pins_exist(matrix: Matrix) -> Iterator[str]:
    """An exact requirement on torch names a release of torch."""
    for name in sorted(matrix.package_names):
        table = _table(matrix, name)
        for release in table.releases if table else ():
            for specifier in release.requires.get("torch", ()):
                exact = specifier.operator == "==" and "*" not in specifier.version
                if exact and matrix.torch.release(Version(specifier.version)) is None:
                    yield f"packages/{name}.toml: {release.version}: no torch {specifier.version}"


def check_ranges_agree(matrix: Matrix) -> Iterator[str]:
    """No release is of two ABI kinds, nor built for two CUDA releases."""
    for name in sorted(matrix.package_names):
        table = _table(matrix, name)
        for release in table.releases if table else ():
            found = table.ranges(release.version) if table else ()
            kinds = {r.abi for r in found if r.abi is not None}
            cudas = {r.cuda.major for r in found if r.cuda is not None}
            if release.cuda is not None:
                cudas.add(release.cuda.major)
            if len(kinds) > 1 or len(cudas) > 1:
                yield f"packages/{name}.toml: range: two of them contradict for {release.version}"


def check_fixes_cure(matrix: Matrix) -> Iterator[str]:
    """The version that cures a break is not among those that it breaks."""
    for row in matrix.breaks.all:
        for name, bound in {**row.fix, **row.alternative}.items():
            broken = row.when.get(name)
            if broken is None:
                continue
            for specifier in bound:
                lowest = specifier.operator == ">=" and Version(specifier.version)
                if lowest and broken.contains(lowest, prereleases=True):
                    yield f"breaks.toml: {row.name}: fix: {name}{bound} is among the broken ones"


def check_shown_words(matrix: Matrix) -> Iterator[str]:
    """What a break shows in a log are signatures."""
    known = {row.id for row in matrix.causes.signatures}
    for row in matrix.breaks.all:
        for name in (*row.shows, *row.frames):
            if name not in known:
                yield f"breaks.toml: {row.name}: shows: there is no signature {name}"
        if row.frames and not row.shows:
            yield f"breaks.toml: {row.name}: frames: they stand beside nothing that is shown"


def check_mixing_grows(matrix: Matrix) -> Iterator[str]:
    """DeepSpeed never takes back a CUDA minor that it lets mix."""
    for before, after in pairwise(matrix.deepspeed.releases):
        lost = before.mixes.get(12, frozenset()) - after.mixes.get(12, frozenset())
        if lost:
            listed = ", ".join(map(str, sorted(lost)))
            yield f"deepspeed.toml: {after.version}: minors: {listed} of {before.version} is gone"


PACKAGE_INVARIANTS: tuple[Callable[[Matrix], Iterator[str]], ...] = (
    check_packages_load,
    check_package_sources,
    check_package_order,
    check_companions_agree,
    check_pins_exist,
    check_ranges_agree,
    check_fixes_cure,
    check_shown_words,
    check_mixing_grows,
)
