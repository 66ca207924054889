"""Torch releases: what PyPI and the PyTorch index publish, code targets."""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeVar

from packaging.version import Version

from envguard.facts.codec import WordsOf
from envguard.facts.machine import OperatingSystem, Platform
from envguard.facts.versions import CPU, Backend, CodeTarget
from envguard.matrix.rows import Provenance, TorchBuildRow, TorchRelease
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from envguard.matrix.reading import Document, Row


R = TypeVar("R")
BuildKey = tuple[Version, Platform, Backend]


@dataclass(frozen=True, slots=True)
class WheelRow:
    """PyPI's wheel of a release for one platform."""

    backend: Backend
    pythons: WordsOf[str]
    provenance: Provenance
    glibc: Version | None = None
    cxx11_abi: bool | None = None


@dataclass(frozen=True, slots=True)
class IndexRow:
    """What the PyTorch index publishes of a release for one platform.

    Below high certainty its backends count as announced only.
    """

    backends: WordsOf[Backend]
    provenance: Provenance
    unverified: WordsOf[Backend] = ()
    more_pythons: WordsOf[str] = ()
    certainty: str = "high"

    @property
    def is_verified(self) -> bool:
        """Whether its backends are more than announced."""
        return self.certainty == "high"


@dataclass(frozen=True, slots=True)
class TargetRow:
    """The code targets of one build."""

    targets: WordsOf[CodeTarget]
    provenance: Provenance
    is_ptx_known: bool = field(default=True, metadata={"key": "ptx_known"})


@dataclass(frozen=True, slots=True)
class ExceptionRow:
    """How some builds differ from PyPI's wheel; None where they do not.

    Args:
        unknown: What is not known of them, although it is of the wheel.
    """

    provenance: Provenance
    cxx11_abi: bool | None = None
    has_label: bool | None = field(default=None, metadata={"key": "label"})
    is_verified: bool | None = field(default=None, metadata={"key": "verified"})
    glibc: Version | None = None
    pythons: WordsOf[str] | None = None
    unknown: WordsOf[Literal["glibc", "cxx11_abi"]] = ()

    @property
    def changes(self) -> Mapping[str, object]:
        """The fields of a build that differ, by name."""
        names = ("cxx11_abi", "has_label", "is_verified", "glibc", "pythons")
        stated = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return stated | dict.fromkeys(self.unknown)


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
        self.exceptions = spread_builds(rows("exception"), ExceptionRow)


def spread(rows: Iterable[Row], kind: type[R]) -> dict[Version, dict[Platform, R]]:
    """Read rows that each stand for several releases of one platform.

    Raises:
        MatrixError: A row is malformed, or a release and platform are stated twice.
    """
    found: dict[Version, dict[Platform, R]] = {}
    for row in rows:
        value = row.build(kind)
        platform = row.value("platform", Platform.parse)
        for version in row.values("torch", Version):
            by_platform = found.setdefault(version, {})
            if platform in by_platform:
                raise row.error("torch", f"{version} is stated twice for {platform}")
            by_platform[platform] = value
    return found


def spread_builds(rows: Iterable[Row], kind: type[R]) -> Mapping[BuildKey, R]:
    """Read rows that each stand for several releases and backends of one platform.

    Raises:
        MatrixError: A row is malformed, or a build is stated twice.
    """
    found: dict[BuildKey, R] = {}
    for row in rows:
        value = row.build(kind)
        platform = row.value("platform", Platform.parse)
        for version in row.values("torch", Version):
            for backend in row.values("backends", Backend.parse):
                key = (version, platform, backend)
                if key in found:
                    raise row.error("backends", f"{version}+{backend} {platform} is stated twice")
                found[key] = value
    return found


INDEX_TEMPLATE = "https://download.pytorch.org/whl/{backend}"


class TorchTable:
    """The rows of ``torch.toml``, read and joined on demand: most commands ask for one release.

    Each query raises MatrixError where a row that it reads misses a field, has the wrong form, or
    states something twice; :attr:`releases` reads every row.

    Args:
        document: The decoded file.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self._rows: dict[Version, TorchRows] = {}
        self._by_version: dict[Version, TorchRelease | None] = {}
        self._builds: dict[Version, tuple[TorchBuildRow, ...]] = {}

    @cached_property
    def releases(self) -> tuple[TorchRelease, ...]:
        """Every release, oldest first."""
        found: dict[Version, TorchRelease] = {}
        for row in self.document.rows("release"):
            release = self._read_release(row, self._every_row)
            if release.version in found:
                raise row.error("version", f"{release.version} is stated twice")
            found[release.version] = release
        return tuple(sorted(found.values(), key=lambda r: r.version))

    def release(self, version: Version) -> TorchRelease | None:
        """The release of a version, whose local label does not matter; None when not recorded."""
        public = _public(version)
        if public not in self._by_version:
            self._by_version[public] = self._find_release(public)
        return self._by_version[public]

    def builds(
        self,
        version: Version | None = None,
        platform: Platform | None = None,
        backend: Backend | None = None,
    ) -> tuple[TorchBuildRow, ...]:
        """The published builds, oldest release first, then by platform and CUDA.

        Args:
            version: Only this release; a local label does not matter. None for all.
            platform: Only this platform; None for all.
            backend: Only this backend; None for all.

        Returns:
            CUDA and CPU builds of PyPI and the PyTorch index; empty when there is none.
        """
        if version is None:
            releases = self.releases
        else:
            found = self.release(version)
            releases = (found,) if found else ()
        return tuple(
            build
            for release in releases
            for build in self._builds_of(release)
            if (platform is None or build.platform == platform)
            and (backend is None or build.backend == backend)
        )

    def build(self, version: Version, backend: Backend, platform: Platform) -> TorchBuildRow | None:
        """The build of a release for a backend and platform; None when none is published."""
        return next(iter(self.builds(version, platform, backend)), None)

    def pypi_backend(self, version: Version, platform: Platform) -> Backend | None:
        """What PyPI's wheel of a release is on a platform; None when it has none."""
        release = self.release(version)
        return release.pypi.get(platform) if release else None

    def index_url(self, backend: Backend, template: str = INDEX_TEMPLATE) -> str:
        """The index that holds a backend's wheels.

        Args:
            backend: The backend.
            template: Address with ``{backend}`` to fill in; one without it (a flat mirror) is
                returned as it is.
        """
        return template.replace("{backend}", backend.label)

    @property
    def code_rows(self) -> Mapping[tuple[Version, Platform, Backend], TargetRow]:
        """The recorded code targets by build, published or not; for :mod:`invariants`."""
        return self._every_row.targets

    @property
    def exceptions(self) -> Mapping[tuple[Version, Platform, Backend], ExceptionRow]:
        """How some builds differ from PyPI's wheel; for :mod:`invariants`."""
        return self._every_row.exceptions

    @cached_property
    def _every_row(self) -> TorchRows:
        return TorchRows(self.document)

    def _rows_about(self, version: Version) -> TorchRows:
        if "_every_row" in self.__dict__:
            return self._every_row
        found = self._rows.get(version)
        if found is None:
            found = self._rows[version] = TorchRows(self.document, version)
        return found

    def _find_release(self, version: Version) -> TorchRelease | None:
        row = self.document.find("release", "version", str(version))
        if row is not None:
            return self._read_release(row, self._rows_about(version))
        # 2.7 and 2.7.0 are one release.
        return next((release for release in self.releases if release.version == version), None)

    def _read_release(self, row: Row, rows: TorchRows) -> TorchRelease:
        version = row.value("version", Version)
        wheels, index = rows.wheels.get(version, {}), rows.index.get(version, {})
        return row.build(
            TorchRelease,
            pypi={platform: wheel.backend for platform, wheel in wheels.items()},
            variants={platform: found.backends for platform, found in index.items()},
            unverified={p: found.unverified for p, found in index.items() if found.unverified},
            pythons={platform: wheel.pythons for platform, wheel in wheels.items()},
            glibc={p: wheel.glibc for p, wheel in wheels.items() if wheel.glibc is not None},
            cxx11_abi={p: w.cxx11_abi for p, w in wheels.items() if w.cxx11_abi is not None},
        )

    def _builds_of(self, release: TorchRelease) -> tuple[TorchBuildRow, ...]:
        found = self._builds.get(release.version)
        if found is None:
            found = self._builds[release.version] = tuple(self._join(release.version))
        return found

    def _join(self, version: Version) -> Iterator[TorchBuildRow]:
        rows = self._rows_about(version)
        wheels, index = rows.wheels.get(version, {}), rows.index.get(version, {})
        for platform in sorted({*wheels, *index}, key=str):
            wheel, published = wheels.get(platform), index.get(platform)
            backends = set(published.backends) if published else set()
            if wheel:
                backends.add(wheel.backend)
            for backend in sorted(backends, key=_backend_order):
                code = rows.targets.get((version, platform, backend))
                build = _join_build(version, platform, backend, code, wheel, published)
                exception = rows.exceptions.get((version, platform, backend))
                yield _apply(build, exception.changes) if exception else build


def _join_build(
    version: Version,
    platform: Platform,
    backend: Backend,
    code: TargetRow | None,
    wheel: WheelRow | None,
    published: IndexRow | None,
) -> TorchBuildRow:
    is_on_pypi = wheel is not None and wheel.backend == backend
    is_verified = is_on_pypi or (published is not None and published.is_verified)
    existence = wheel if is_on_pypi else published
    row = code or existence or wheel
    assert row is not None  # noqa: S101 - the caller takes backends from these rows
    provenance = row.provenance
    more = published.more_pythons if published else ()
    return TorchBuildRow(
        version=version,
        backend=backend,
        platform=platform,
        targets=() if backend == CPU else code.targets if code else None,
        is_ptx_known=backend == CPU or (code is not None and code.is_ptx_known),
        pythons=(*wheel.pythons, *more) if wheel else more,
        glibc=wheel.glibc if wheel else None,
        is_on_pypi=is_on_pypi,
        provenance=provenance if is_verified else _unfirm(provenance),
        cxx11_abi=wheel.cxx11_abi if wheel else None,
        is_verified=is_verified,
        # The macOS wheels of the index carry no local version label.
        has_label=platform.system is not OperatingSystem.MACOS,
    )


def _apply(build: TorchBuildRow, changes: Mapping[str, object]) -> TorchBuildRow:
    changed = replace(build, **changes)  # type: ignore[arg-type]  # each is of its type
    if changed.is_verified:
        return changed
    return replace(changed, provenance=_unfirm(changed.provenance))


def _unfirm(provenance: Provenance) -> Provenance:
    return replace(provenance, is_firm=False)


def _public(version: Version) -> Version:
    return version if version.local is None else Version(version.public)


def _backend_order(backend: Backend) -> tuple[int, int]:
    return (0, 0) if backend.cuda is None else (backend.cuda.major, backend.cuda.minor)
