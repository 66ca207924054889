"""Proves what the torch tables promise: builds that can exist, and tables that agree."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.facts.machine import OperatingSystem, Platform
from envguard.facts.versions import CPU, Backend, CodeKind, CodeTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packaging.specifiers import SpecifierSet

    from envguard.matrix.loader import Matrix
    from envguard.matrix.reading import Row

_TAG = re.compile(r"cp(3)([0-9]+)t?")


def _check_code_can_exist(matrix: Matrix) -> Iterator[str]:
    """Each build's CUDA is recorded and its compiler knows every code target."""
    for row in matrix.document("torch.toml").rows("build"):
        for backend in row.values("backends", Backend.parse):
            if backend.cuda is None:
                yield row.error("backends", "a CPU build has no code targets").message
            elif matrix.drivers.toolkit_driver(backend.cuda) is None:
                yield row.error("backends", f"no driver is recorded for {backend.cuda}").message
            else:
                yield from _check_targets(matrix, row, backend)


def _check_targets(matrix: Matrix, row: Row, backend: Backend) -> Iterator[str]:
    cuda = backend.cuda
    assert cuda is not None  # noqa: S101 - the caller tells CPU builds apart
    oldest = matrix.support.oldest_target(cuda)
    targets = row.values("targets", CodeTarget.parse)
    for index, target in enumerate(targets):
        field, capability = f"targets[{index}]", target.capability
        generation = matrix.drivers.generation_of(capability)
        if oldest is not None and capability < oldest:
            yield row.error(field, f"CUDA {cuda} no longer compiles for {capability}").message
        if generation is None:
            yield row.error(field, f"{capability} is of no generation").message
        elif generation.first_cuda is not None and cuda < generation.first_cuda:
            yield row.error(field, f"CUDA {cuda} does not know {generation.name} yet").message
    if list(targets) != sorted(targets, key=_target_order) or len(set(row.words("targets"))) < len(
        targets
    ):
        yield row.error("targets", "expected each once, cubins before PTX, rising").message


def _target_order(target: CodeTarget) -> tuple[object, ...]:
    return target.kind is CodeKind.PTX, target.capability, target.suffix


def _check_builds_are_published(matrix: Matrix) -> Iterator[str]:
    """Code targets and exceptions are about builds that PyPI or the index holds."""
    published = {(b.version, b.platform, b.backend) for b in matrix.torch.builds()}
    for array in ("build", "exception"):
        for row in matrix.document("torch.toml").rows(array):
            platform = row.value("platform", Platform.parse)
            for version in row.values("torch", Version):
                for backend in row.values("backends", Backend.parse):
                    if (version, platform, backend) not in published:
                        text = f"{version}+{backend} is not published for {platform}"
                        yield row.error("backends", text).message


def _check_pypi_is_on_index(matrix: Matrix) -> Iterator[str]:
    """PyPI's build is among the index's, or the row says why not."""
    for row in matrix.document("torch.toml").rows("pypi"):
        platform = row.value("platform", Platform.parse)
        backend = row.value("backend", Backend.parse)
        # macOS wheels are the same files on both sides, and the index rows leave them out.
        if platform.system is OperatingSystem.MACOS or row.has("note"):
            continue
        for version in row.values("torch", Version):
            release = matrix.torch.release(version)
            if release is not None and backend not in release.variants.get(platform, ()):
                text = f"{backend} of {version} is not on the index for {platform}"
                yield row.error("backend", text).message


def _check_index(matrix: Matrix) -> Iterator[str]:
    """Backends rise, and a CPU build is always among them."""
    for row in matrix.document("torch.toml").rows("index"):
        backends = row.values("backends", Backend.parse)
        if CPU not in backends:
            yield row.error("backends", "the index always holds a CPU build").message
        order = [(b.cuda.major, b.cuda.minor) if b.cuda else (0, 0) for b in backends]
        if order != sorted(set(order)):
            yield row.error("backends", "expected each once, cpu first, rising").message


def _check_releases(matrix: Matrix) -> Iterator[str]:
    """Every row names a release that is recorded; dates are dates."""
    document = matrix.document("torch.toml")
    for row in document.rows("release"):
        try:
            date.fromisoformat(row.text("released"))
        except ValueError as err:
            yield row.error("released", str(err)).message
        release = matrix.torch.release(row.value("version", Version))
        if release is not None and not release.pypi:
            yield row.error("version", f"PyPI's wheels of {release.version} are missing").message
    for array in ("pypi", "index"):
        for row in document.rows(array):
            for index, version in enumerate(row.values("torch", Version)):
                if matrix.torch.release(version) is None:
                    yield row.error(f"torch[{index}]", f"{version} has no release row").message


def _check_pythons(matrix: Matrix) -> Iterator[str]:
    """Wheels exist for Pythons that the release admits, and for each once."""
    for row in matrix.document("torch.toml").rows("pypi"):
        tags = row.words("pythons")
        minors = [_TAG.fullmatch(tag) for tag in tags]
        for index, (tag, match) in enumerate(zip(tags, minors, strict=True)):
            if match is None:
                yield row.error(f"pythons[{index}]", f"{tag!r} is not a CPython tag").message
        order = [(int(match[2]), match[0]) for match in minors if match]
        if order != sorted(set(order)):
            yield row.error("pythons", "expected each once, rising").message
        for version in row.values("torch", Version):
            release = matrix.torch.release(version)
            if release is not None and order:
                yield from _check_admitted(row, version, release.requires_python, order[0][0])


def _check_admitted(
    row: Row, version: Version, admitted: SpecifierSet, minor: int
) -> Iterator[str]:
    # The newest patch release: >=3.7.1 admits 3.7.
    if not admitted.contains(Version(f"3.{minor}.99")):
        yield row.error("pythons[0]", f"{version} requires Python {admitted}").message


def _check_companions(matrix: Matrix) -> Iterator[str]:
    """The companions that a release names exist and admit it."""
    for row in matrix.document("torch.toml").rows("release"):
        torch = row.value("version", Version)
        for package in ("torchvision", "torchaudio"):
            for index, version in enumerate(row.values(package, Version)):
                companion = matrix.libs.companion(package, version)
                field = f"{package}[{index}]"
                if companion is None:
                    yield row.error(field, f"{package} {version} is not recorded").message
                elif not _admits(companion.torch, torch, companion.backend):
                    text = f"{package} {version} requires torch{companion.torch}"
                    yield row.error(field, text).message


def _admits(bounds: SpecifierSet, torch: Version, backend: Backend) -> bool:
    labelled = Version(f"{torch}+{backend}")
    return bounds.contains(torch, prereleases=True) or bounds.contains(labelled, prereleases=True)


def _check_libraries(matrix: Matrix) -> Iterator[str]:
    """What a release row says of PyPI's wheel is what the libraries' row says of that build."""
    linux = Platform(OperatingSystem.LINUX, "x86_64")
    for row in matrix.document("torch.toml").rows("release"):
        version = row.value("version", Version)
        backend = matrix.torch.pypi_backend(version, linux)
        libraries = matrix.libs.libraries_of(version, backend) if backend else None
        if libraries is None:
            continue
        for field, stated in (("cudnn", libraries.cudnn), ("nccl", libraries.nccl)):
            if stated is not None and row.text(field) != stated:
                text = f"{row.text(field)} here, {stated} among the libraries of {backend}"
                yield row.error(field, text).message


def _check_machine_code(matrix: Matrix) -> Iterator[str]:
    """Wheels that were read hold every recorded target of PyPI's build."""
    for row, code in zip(
        matrix.document("torch_libs.toml").rows("fatbin"), matrix.libs.machine_code, strict=True
    ):
        backend = matrix.torch.pypi_backend(code.torch, code.platform)
        build = matrix.torch.build(code.torch, backend, code.platform) if backend else None
        held = {str(target) for target, _ in code.counts}
        for target in build.targets or () if build else ():
            if str(target) not in held:
                yield row.error("cubins", f"{target} is recorded but not in the wheel").message


TORCH_INVARIANTS: tuple[Callable[[Matrix], Iterator[str]], ...] = (
    _check_code_can_exist,
    _check_builds_are_published,
    _check_pypi_is_on_index,
    _check_index,
    _check_releases,
    _check_pythons,
    _check_companions,
    _check_libraries,
    _check_machine_code,
)
