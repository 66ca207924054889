"""Proves what the tables promise about themselves, beyond what loading them proves."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.errors import MatrixError
from envguard.facts.versions import Backend, ComputeCapability, CudaVersion, DriverVersion
from envguard.matrix.package_invariants import PACKAGE_INVARIANTS
from envguard.matrix.rows import Segment
from envguard.matrix.torch_invariants import TORCH_INVARIANTS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from envguard.matrix.loader import Matrix
    from envguard.matrix.reading import Row

_DATE = re.compile(r"[0-9]{4}\.[0-9]{2}\.[0-9]{2}")


def verify(matrix: Matrix) -> tuple[str, ...]:
    """Check every invariant of the tables.

    Args:
        matrix: The tables.

    Returns:
        One line a problem, each naming table, row and field; empty when the tables hold.
    """
    problems: list[str] = []
    for invariant in INVARIANTS:
        try:
            problems.extend(invariant(matrix))
        except MatrixError as err:  # the table did not load; said once, however many ask for it
            problems.append(err.message)
    return tuple(dict.fromkeys(problems))


def _check_manifest(matrix: Matrix) -> Iterator[str]:
    version = matrix.manifest.data_version
    if not _DATE.fullmatch(version):
        yield f"manifest.toml: data_version: {version!r} is not a date such as 2026.11.29"
        return
    for name in TABLES:
        for key, source in matrix.document(name).sources.items():
            if source.checked.replace("-", ".") > version:
                yield f"{name}: sources.{key}.checked: {source.checked} is after {version}"


def _check_loading(matrix: Matrix) -> Iterator[str]:
    for table in (
        "codes",
        "drivers",
        "gpus",
        "index",
        "libs",
        "machines",
        "memory",
        "signals",
        "support",
        "toolkits",
        "torch",
        "uv",
    ):
        try:
            getattr(matrix, table)
        except MatrixError as err:
            yield err.message


def _check_provenance(matrix: Matrix) -> Iterator[str]:
    for name, arrays in TABLES.items():
        document = matrix.document(name)
        used: set[str] = set()
        for array in arrays:
            for row in document.rows(array):
                try:
                    row.provenance()
                except MatrixError as err:
                    yield err.message
                else:
                    used.update(row.words("source"))
        for key in document.sources.keys() - used:
            yield f"{name}: sources.{key}: no row names this source"


def _check_order(matrix: Matrix) -> Iterator[str]:
    for name, arrays in TABLES.items():
        for array, key in arrays.items():
            rows = list(matrix.document(name).rows(array))
            for before, after in pairwise(rows):
                if key(after) < key(before):  # type: ignore[operator]  # keys of one array compare
                    yield after.error(_field_of(after), "stands out of order").message


def _check_unique(matrix: Matrix) -> Iterator[str]:
    for name, array, field in _UNIQUE:
        seen: set[Hashable] = set()
        for row in matrix.document(name).rows(array):
            value = row.data.get(field)
            if isinstance(value, str | int) and value in seen:
                yield row.error(field, f"{value!r} is stated twice").message
            elif isinstance(value, str | int):
                seen.add(value)


def _check_minimum_drivers(matrix: Matrix) -> Iterator[str]:
    document = matrix.document("drivers.toml")
    for array, label in (("toolkit_driver", "toolkit"), ("minor_version_compat", "major")):
        for field in ("linux", "windows"):
            yield from _check_rising(list(document.rows(array)), field, label)
    yield from _check_rising(list(matrix.document("uv.toml").rows("uv_driver")), "linux", "backend")
    yield from _check_toolkit_branches(matrix)


def _check_rising(rows: list[Row], field: str, label: str) -> Iterator[str]:
    stated = [row for row in rows if row.has(field)]
    for before, after in pairwise(stated):
        older, newer = (row.value(field, DriverVersion.parse) for row in (before, after))
        if newer < older:
            of = before.data.get(label)
            yield after.error(field, f"{newer} is below {older}, that of {of}").message


def _check_toolkit_branches(matrix: Matrix) -> Iterator[str]:
    known = {row.branch: row.cuda for row in matrix.drivers.branches}
    rows = matrix.document("drivers.toml").rows("toolkit_driver")
    for row, toolkit in zip(rows, matrix.drivers.toolkits, strict=True):
        cuda = known.get(toolkit.linux.branch)
        if cuda is not None and cuda != toolkit.cuda:
            yield row.error("linux", f"branch {toolkit.linux.branch} is that of {cuda}").message


def _check_branches(matrix: Matrix) -> Iterator[str]:
    rows = list(matrix.document("drivers.toml").rows("driver_branch"))
    pairs = zip(pairwise(rows), pairwise(matrix.drivers.branches), strict=True)
    for (_, row), (before, after) in pairs:
        if after.cuda <= before.cuda:
            yield row.error("cuda", f"{after.cuda} is not above {before.cuda}").message
        if after.windows[0] <= before.windows[1]:
            yield row.error("windows", f"overlaps branch {before.branch}").message


def _check_generations(matrix: Matrix) -> Iterator[str]:
    rows = list(matrix.document("drivers.toml").rows("generation"))
    generations = matrix.drivers.generations
    for row, generation in zip(rows, generations, strict=True):
        if generation.last < generation.first:
            yield row.error("last", f"{generation.last} is below {generation.first}").message
        for other in generations:
            is_same = other is generation
            if not is_same and any(other.covers(c) for c in (generation.first, generation.last)):
                yield row.error("first", f"overlaps {other.name}").message
            if not is_same and any(other.covers(alias) for alias in generation.aliases):
                yield row.error("aliases", f"overlaps {other.name}").message


def _check_gpus(matrix: Matrix) -> Iterator[str]:
    rows = matrix.document("gpus.toml").rows("gpu")
    for row, model in zip(rows, matrix.gpus.models, strict=True):
        for capability in (model.capability, *model.other_capabilities):
            # Jetson drivers come with their own releases, outside the branches.
            is_jetson = model.segment is Segment.JETSON
            if not is_jetson and matrix.drivers.generation_of(capability) is None:
                yield row.error("capability", f"{capability} is of no generation").message
        expected = matrix.gpus.chips.get(model.chip, model.capability)
        if expected != model.capability:
            yield row.error("chip", f"{model.chip} is {expected}, not {model.capability}").message
        if model not in matrix.gpus.find(model.name):
            yield row.error("name", f"{model.name!r} does not find itself").message


def _check_backend_labels(matrix: Matrix) -> Iterator[str]:
    seen: dict[str, Backend] = {}
    for build in matrix.torch.builds():
        label = build.backend.label
        if Backend.parse(label) != build.backend:
            yield f"torch.toml: {build.label}: label {label} reads as {Backend.parse(label)}"
        if seen.setdefault(label, build.backend) != build.backend:
            yield f"torch.toml: {build.label}: label {label} stands for two backends"


def _field_of(row: Row) -> str:
    return next(iter(row.data), "")


def _version(field: str) -> Callable[[Row], object]:
    return lambda row: row.value(field, Version)


def _text(field: str) -> Callable[[Row], object]:
    return lambda row: row.text(field)


def _number(field: str) -> Callable[[Row], object]:
    return lambda row: row.integer(field)


def _by_capability(row: Row) -> object:
    name = "name" if row.has("name") else "chip"
    return row.value("capability", ComputeCapability.parse), row.text(name)


def _by_first(row: Row) -> object:
    return row.value("first", ComputeCapability.parse)


def _by_flavour(row: Row) -> object:
    first = row.optional("first", ComputeCapability.parse)
    return row.text("flavour"), first or ComputeCapability(0, 0)


def _by_builds(row: Row) -> object:
    backends = row.words("backends") if row.has("backends") else ()
    return row.values("torch", Version), row.text("platform"), backends


def _by_backend(row: Row) -> object:
    return row.value("backend", Backend.parse).cuda or CudaVersion(0, 0)


def _by_place(row: Row) -> object:
    return row.text("package") if row.has("package") else "", row.text("platform")


def _by_package(row: Row) -> object:
    field = "version" if row.has("version") else "since"
    return row.text("package"), row.optional(field, Version) or Version("0")


def _by_series(row: Row) -> object:
    return row.value("series", Version), row.text("backend")


def _by_file(row: Row) -> object:
    return row.value("torch", Version), row.text("platform"), row.text("file")


# Every array of every table with the order of its rows.
TABLES: dict[str, dict[str, Callable[[Row], object]]] = {
    "codes.toml": {"cause": _text("slug"), "code": _text("code")},
    "drivers.toml": {
        "toolkit_driver": _version("toolkit"),
        "minor_version_compat": _number("major"),
        "driver_branch": _number("branch"),
        "generation": _by_first,
        "toolkit_targets": _number("major"),
        "forward_compat": _version("cuda"),
        "branch_support": _number("branch"),
    },
    "gpus.toml": {"gpu": _by_capability, "chip": _by_capability},
    "index.toml": {
        "channel": _text("name"),
        "host": _text("name"),
        "unlabelled": _by_place,
        "platform_tag": _by_place,
    },
    "machines.toml": {
        "kernel_module": _by_flavour,
        "uuid_list": _by_package,
        "size": _text("name"),
        "rule": _text("name"),
    },
    "toolkits.toml": {"host_compiler": _version("cuda")},
    "torch.toml": {
        "release": _version("version"),
        "pypi": _by_builds,
        "index": _by_builds,
        "exception": _by_builds,
        "build": _by_builds,
    },
    "torch_libs.toml": {
        "libs": _by_series,
        "requires": _version("torch"),
        "companion": _by_package,
        "cuda_match": _by_package,
        "wheel_tag": _by_builds,
        "fatbin": _by_file,
        "other_vendor": _version("torch"),
    },
    "uv.toml": {"uv_driver": _by_backend},
}
_UNIQUE = (
    ("drivers.toml", "toolkit_driver", "toolkit"),
    ("drivers.toml", "minor_version_compat", "major"),
    ("drivers.toml", "driver_branch", "branch"),
    ("drivers.toml", "driver_branch", "cuda"),
    ("drivers.toml", "generation", "name"),
    ("gpus.toml", "gpu", "name"),
    ("gpus.toml", "chip", "chip"),
    ("machines.toml", "size", "name"),
    ("machines.toml", "rule", "name"),
    ("toolkits.toml", "host_compiler", "cuda"),
    ("torch_libs.toml", "requires", "torch"),
    ("torch_libs.toml", "fatbin", "file"),
    ("torch_libs.toml", "other_vendor", "torch"),
    ("uv.toml", "uv_driver", "backend"),
)
INVARIANTS: tuple[Callable[[Matrix], Iterator[str]], ...] = (
    _check_loading,
    _check_manifest,
    _check_provenance,
    _check_order,
    _check_unique,
    _check_minimum_drivers,
    _check_branches,
    _check_generations,
    _check_gpus,
    _check_backend_labels,
    *TORCH_INVARIANTS,
    *PACKAGE_INVARIANTS,
)
