"""Torch releases: what PyPI and the PyTorch index publish, code targets."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.facts.machine import OperatingSystem, Platform
from envguard.facts.versions import CPU, Backend, CodeTarget
from envguard.matrix.rows import Provenance, TorchBuildRow, TorchRelease

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
    def exceptions(self) -> Mapping[tuple[Version, Platform, Backend], Mapping[str, object]]:
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
        return TorchRelease(
            version=version,
            released=row.text("released"),
            requires_python=row.value("requires_python", SpecifierSet),
            pypi={platform: wheel.backend for platform, wheel in wheels.items()},
            variants={platform: found.backends for platform, found in index.items()},
            unverified={p: found.unverified for p, found in index.items() if found.unverified},
            pythons={platform: wheel.pythons for platform, wheel in wheels.items()},
            glibc={p: wheel.glibc for p, wheel in wheels.items() if wheel.glibc is not None},
            cxx11_abi={p: w.cxx11_abi for p, w in wheels.items() if w.cxx11_abi is not None},
            torchvision=row.values("torchvision", Version),
            torchaudio=row.values("torchaudio", Version),
            triton=row.text("triton") if row.has("triton") else "",
            cudnn=row.text("cudnn") if row.has("cudnn") else "",
            nccl=row.text("nccl") if row.has("nccl") else "",
            provenance=row.provenance(),
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
                changes = rows.exceptions.get((version, platform, backend))
                yield _apply(build, changes) if changes else build


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
    changed = replace(build, **changes)  # type: ignore[arg-type]  # torch_rows checked each type
    if changed.is_verified:
        return changed
    return replace(changed, provenance=_unfirm(changed.provenance))


def _unfirm(provenance: Provenance) -> Provenance:
    return replace(provenance, is_firm=False)


def _public(version: Version) -> Version:
    return version if version.local is None else Version(version.public)


def _backend_order(backend: Backend) -> tuple[int, int]:
    return (0, 0) if backend.cuda is None else (backend.cuda.major, backend.cuda.minor)
