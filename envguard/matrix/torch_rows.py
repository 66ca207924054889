"""Reads the arrays of ``torch.toml``: rows that stand for several releases are spread out."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from packaging.version import Version

from envguard.facts.machine import Platform
from envguard.facts.versions import Backend, CodeTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from envguard.matrix.reading import Document, Row

R = TypeVar("R")
BuildKey = tuple[Version, Platform, Backend]

_FLAGS = {"cxx11_abi": "cxx11_abi", "label": "has_label", "verified": "is_verified"}


class WheelRow:
    """PyPI's wheel of a release for one platform."""

    __slots__ = ("backend", "cxx11_abi", "glibc", "provenance", "pythons")

    def __init__(self, row: Row) -> None:
        self.backend = row.value("backend", Backend.parse)
        self.pythons = row.words("pythons")
        self.glibc = row.optional("glibc", Version)
        has_abi = row.has("cxx11_abi")
        self.cxx11_abi = row.flag("cxx11_abi", default=False) if has_abi else None
        self.provenance = row.provenance()


class IndexRow:
    """What the PyTorch index publishes of a release for one platform.

    Below high certainty its backends count as announced only.
    """

    __slots__ = ("backends", "is_verified", "more_pythons", "provenance", "unverified")

    def __init__(self, row: Row) -> None:
        self.backends = row.values("backends", Backend.parse)
        has_unverified = row.has("unverified")
        self.unverified = row.values("unverified", Backend.parse) if has_unverified else ()
        self.more_pythons = row.words("more_pythons") if row.has("more_pythons") else ()
        self.is_verified = row.certainty() == "high"
        self.provenance = row.provenance()


class TargetRow:
    """The code targets of one build."""

    __slots__ = ("is_ptx_known", "provenance", "targets")

    def __init__(self, row: Row) -> None:
        self.targets = row.values("targets", CodeTarget.parse)
        self.is_ptx_known = row.flag("ptx_known", default=True)
        self.provenance = row.provenance()


def read_exception(row: Row) -> dict[str, object]:
    """Read a row of ``exception`` as changes to a build's fields."""
    changes: dict[str, object] = {
        name: row.flag(field, default=True) for field, name in _FLAGS.items() if row.has(field)
    }
    if row.has("glibc"):
        changes["glibc"] = row.value("glibc", Version)
    if row.has("pythons"):
        changes["pythons"] = row.words("pythons")
    for index, field in enumerate(row.words("unknown") if row.has("unknown") else ()):
        if field not in {"glibc", "cxx11_abi"}:
            raise row.error(f"unknown[{index}]", f"{field!r} is none of glibc, cxx11_abi")
        changes[field] = None
    row.provenance()  # read to prove it
    return changes


class TorchRows:
    """The rows about some releases, spread out: by release and platform, or by build.

    Args:
        document: ``torch.toml``.
        version: Only rows that name this release are read; None for all.

    Raises:
        MatrixError: A row misses a field, has the wrong form, or states something twice.
    """

    __slots__ = ("exceptions", "index", "targets", "wheels")

    def __init__(self, document: Document, version: Version | None = None) -> None:
        def rows(array: str) -> Iterator[Row]:
            if version is None:
                return document.rows(array)
            return document.naming(array, "torch", str(version))

        self.wheels = spread(rows("pypi"), WheelRow)
        self.index = spread(rows("index"), IndexRow)
        self.targets = spread_builds(rows("build"), TargetRow)
        self.exceptions = spread_builds(rows("exception"), read_exception)


def spread(rows: Iterable[Row], read: Callable[[Row], R]) -> dict[Version, dict[Platform, R]]:
    """Read rows that each stand for several releases of one platform.

    Raises:
        MatrixError: A row is malformed, or a release and platform are stated twice.
    """
    found: dict[Version, dict[Platform, R]] = {}
    for row in rows:
        value = read(row)
        platform = row.value("platform", Platform.parse)
        for version in row.values("torch", Version):
            by_platform = found.setdefault(version, {})
            if platform in by_platform:
                raise row.error("torch", f"{version} is stated twice for {platform}")
            by_platform[platform] = value
    return found


def spread_builds(rows: Iterable[Row], read: Callable[[Row], R]) -> Mapping[BuildKey, R]:
    """Read rows that each stand for several releases and backends of one platform.

    Raises:
        MatrixError: A row is malformed, or a build is stated twice.
    """
    found: dict[BuildKey, R] = {}
    for row in rows:
        value = read(row)
        platform = row.value("platform", Platform.parse)
        for version in row.values("torch", Version):
            for backend in row.values("backends", Backend.parse):
                key = (version, platform, backend)
                if key in found:
                    raise row.error("backends", f"{version}+{backend} {platform} is stated twice")
                found[key] = value
    return found
