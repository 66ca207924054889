"""Reads the arrays of ``torch.toml``: rows that stand for several releases are spread out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from packaging.version import Version

from envguard.facts.machine import Platform
from envguard.facts.versions import Backend, CodeTarget
from envguard.matrix.rows import Provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from envguard.matrix.reading import Document, Row

R = TypeVar("R")
BuildKey = tuple[Version, Platform, Backend]

_FLAGS = {"cxx11_abi": "cxx11_abi", "label": "has_label", "verified": "is_verified"}


@dataclass(frozen=True, slots=True)
class WheelRow:
    """PyPI's wheel of a release for one platform."""

    backend: Backend
    pythons: tuple[str, ...]
    glibc: Version | None
    cxx11_abi: bool | None
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class IndexRow:
    """What the PyTorch index publishes of a release for one platform.

    Args:
        backends: The published ones.
        unverified: Ones that may be there.
        more_pythons: Python tags that PyPI's wheels lack.
        is_verified: The backends are established, not only announced.
        provenance: Where this comes from.
    """

    backends: tuple[Backend, ...]
    unverified: tuple[Backend, ...]
    more_pythons: tuple[str, ...]
    is_verified: bool
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class TargetRow:
    """Code targets of one build."""

    targets: tuple[CodeTarget, ...]
    is_ptx_known: bool
    provenance: Provenance


def read_wheel(row: Row) -> WheelRow:
    """Read a row of ``pypi``."""
    return WheelRow(
        row.value("backend", Backend.parse),
        row.texts("pythons"),
        row.optional("glibc", Version),
        row.flag("cxx11_abi", default=False) if row.has("cxx11_abi") else None,
        row.provenance(),
    )


def read_index(row: Row) -> IndexRow:
    """Read a row of ``index``; below high certainty its backends count as announced only."""
    return IndexRow(
        row.values("backends", Backend.parse),
        row.values("unverified", Backend.parse) if row.has("unverified") else (),
        row.texts("more_pythons") if row.has("more_pythons") else (),
        row.certainty() == "high",
        row.provenance(),
    )


def read_targets(row: Row) -> TargetRow:
    """Read a row of ``build``."""
    return TargetRow(
        row.values("targets", CodeTarget.parse),
        row.flag("ptx_known", default=True),
        row.provenance(),
    )


def read_exception(row: Row) -> dict[str, object]:
    """Read a row of ``exception`` as changes to a build's fields."""
    changes: dict[str, object] = {
        name: row.flag(field, default=True) for field, name in _FLAGS.items() if row.has(field)
    }
    if row.has("glibc"):
        changes["glibc"] = row.value("glibc", Version)
    if row.has("pythons"):
        changes["pythons"] = row.texts("pythons")
    for field in row.texts("unknown") if row.has("unknown") else ():
        if field not in {"glibc", "cxx11_abi"}:
            raise row.error("unknown", f"{field!r} is none of glibc, cxx11_abi")
        changes[field] = None
    row.provenance()  # proven here, reported by verify
    return changes


def spread(
    document: Document, array: str, read: Callable[[Row], R]
) -> dict[Version, dict[Platform, R]]:
    """Read an array whose rows each stand for several releases of one platform.

    Raises:
        MatrixError: A row is malformed, or a release and platform are stated twice.
    """
    found: dict[Version, dict[Platform, R]] = {}
    for row in document.rows(array):
        value = read(row)
        platform = row.value("platform", Platform.parse)
        for version in row.values("torch", Version):
            by_platform = found.setdefault(version, {})
            if platform in by_platform:
                raise row.error("torch", f"{version} is stated twice for {platform}")
            by_platform[platform] = value
    return found


def spread_builds(document: Document, array: str, read: Callable[[Row], R]) -> Mapping[BuildKey, R]:
    """Read an array whose rows each stand for several releases and backends of one platform.

    Raises:
        MatrixError: A row is malformed, or a build is stated twice.
    """
    found: dict[BuildKey, R] = {}
    for row in document.rows(array):
        value = read(row)
        platform = row.value("platform", Platform.parse)
        for version in row.values("torch", Version):
            for backend in row.values("backends", Backend.parse):
                key = (version, platform, backend)
                if key in found:
                    raise row.error("backends", f"{version}+{backend} {platform} is stated twice")
                found[key] = value
    return found
