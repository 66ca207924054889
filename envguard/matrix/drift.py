"""Compares rows with what a registry publishes and with one wheel that was read."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from envguard.facts.gaps import GapReason
from envguard.facts.machine import Platform
from envguard.facts.published import CUDA_LIBRARY, PYTHON_LIBRARY
from envguard.facts.versions import CodeKind
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from envguard.facts.published import Published, TorchWheel
    from envguard.facts.versions import CodeTarget
    from envguard.matrix.loader import Matrix
    from envguard.matrix.packages import PackageRelease, PackageTable
    from envguard.matrix.rows import TorchRelease


_RUNTIME = re.compile(r"nvidia-cuda-runtime-cu[0-9]+|cuda-toolkit")


@dataclass(frozen=True, slots=True)
class Drift:
    """One field in which a row and the registry differ.

    Args:
        table: File of the row.
        version: The release; empty when the row is missing.
        field: The field.
        stated: What the row says.
        found: What the registry says.
    """

    table: str
    version: str
    field: str
    stated: str
    found: str

    def __str__(self) -> str:
        return f"{self.table}: {self.version}: {self.field}: {self.stated!r}, found {self.found!r}"


def compare_release(
    table: PackageTable, release: PackageRelease, published: Published
) -> Iterator[Drift]:
    """The fields in which a row differs from what is published.

    A requirement that the row does not state is no drift: rows hold those that matter here.

    Args:
        table: Its table.
        release: The row.
        published: The same release in the registry.
    """
    differences = (
        *_python(release, published),
        *_requirements(release, published),
        *_cuda(release, published),
        *_files(release, published),
    )
    for field, stated, found in differences:
        yield Drift(table.document.name, str(release.version), field, stated, found)


def _python(release: PackageRelease, published: Published) -> Iterator[tuple[str, str, str]]:
    stated = release.python if release.python is not None else SpecifierSet()
    if stated != SpecifierSet(published.requires_python):
        yield "python", str(release.python or ""), published.requires_python


def _requirements(release: PackageRelease, published: Published) -> Iterator[tuple[str, str, str]]:
    plain, extras = _by_name(published.requires)
    for name, bound in release.requires.items():
        if name not in plain:
            # SGLang and others moved a requirement into an extra and back.
            if bound not in extras.get(name, ()):
                yield f"requires.{name}", str(bound) or "any", "no requirement"
        elif bound not in plain[name]:
            yield f"requires.{name}", str(bound) or "any", _listed(plain[name])
    for name, bound in release.extras.items():
        if bound not in extras.get(name, ()):
            yield f"extras.{name}", str(bound) or "any", _listed(extras.get(name, ()))


def _by_name(
    requires: Iterable[str],
) -> tuple[Mapping[str, tuple[SpecifierSet, ...]], Mapping[str, tuple[SpecifierSet, ...]]]:
    """The bounds on each distribution, by markers: unconditional or not, and those of extras."""
    plain: dict[str, tuple[SpecifierSet, ...]] = {}
    extras: dict[str, tuple[SpecifierSet, ...]] = {}
    for text in requires:
        try:
            requirement = Requirement(text.replace(" (", " ").replace(")", "", 1))
        except InvalidRequirement:
            requirement = Requirement(text)
        of_extra = requirement.marker is not None and "extra ==" in str(requirement.marker)
        found = extras if of_extra else plain
        name = canonicalize_name(requirement.name)
        found[name] = (*found.get(name, ()), requirement.specifier)
    return plain, extras


def _listed(bounds: Iterable[SpecifierSet]) -> str:
    return " or ".join(str(bound) or "any" for bound in bounds) or "no requirement"


def _cuda(release: PackageRelease, published: Published) -> Iterator[tuple[str, str, str]]:
    """The CUDA release that the requirements on NVIDIA's runtime name."""
    stated = release.cuda
    for text in published.requires if stated else ():
        requirement = Requirement(text)
        if not _RUNTIME.fullmatch(canonicalize_name(requirement.name)) or stated is None:
            continue
        for specifier in requirement.specifier:
            if specifier.operator != "==":
                continue
            found = Version(specifier.version.removesuffix(".*"))
            same = found.release[:2] == (
                (stated.cuda.major, stated.cuda.minor) if stated.cuda else ()
            )
            if found.major != stated.major and not same:
                yield "cuda", str(stated), str(found)


def _files(release: PackageRelease, published: Published) -> Iterator[tuple[str, str, str]]:
    if not published.wheels:
        return
    found = {_python_tag(name) for name in published.wheels}
    if release.pythons and set(release.pythons) != found:
        yield "pythons", " ".join(release.pythons), " ".join(sorted(found))
    if release.released and published.released and release.released != published.released:
        yield "released", release.released, published.released
    if published.is_yanked not in {None, release.is_yanked}:
        yield "yanked", str(release.is_yanked), str(published.is_yanked)


def _python_tag(wheel: str) -> str:
    """``cp312``, ``cp313t``, ``cp39-abi3`` or ``py3`` of a wheel's name."""
    python, abi = wheel.removesuffix(".whl").split("-")[-3:-1]
    if abi == "abi3":
        return f"{python}-abi3"
    python = "py3" if python == "py2.py3" else python
    # cp313t is an interpreter of its own, cp37m was the only one of its time.
    return abi.removesuffix("m") if abi.startswith(python) else python


def missing_releases(table: PackageTable, versions: Iterable[Version]) -> Iterator[Drift]:
    """Published releases above the newest row; pre-releases do not count.

    Args:
        table: The table.
        versions: Everything that the registry lists.
    """
    newest = max((release.version for release in table.releases), default=None)
    for version in sorted(versions):
        if newest is not None and version > newest and not version.is_prerelease:
            yield Drift(table.document.name, str(version), "row", "", "published, has no row")


_TORCH, _LIBS = "torch.toml", "torch_libs.toml"
_OURS = ("nvidia-", "cuda-", "triton", "pytorch-triton")
_ARCH_STRING_SINCE = Version("1.6")  # before, torch.cuda.get_arch_list() did not exist
_REQUIRES_PLATFORM = Platform.parse("linux-x86_64")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One field of one row beside what a wheel says.

    Args:
        table: File of the row.
        row: What names it there: array, release, platform.
        field: The field.
        stated: What the row says; empty when there is no such row or field.
        found: What the wheel says; None when that was not read.
        why: Why it was not read.
        is_asked_for: False where it was not to be read.
    """

    table: str
    row: str
    field: str
    stated: str
    found: str | None
    why: str = ""
    is_asked_for: bool = True

    @property
    def agrees(self) -> bool:
        """Whether row and wheel say the same."""
        return self.stated == self.found

    @property
    def drifts(self) -> bool:
        """Whether row and wheel say different things."""
        return self.found is not None and not self.agrees

    def __str__(self) -> str:
        place = f"{self.table}: {self.row}: {self.field}"
        if self.found is None:
            return f"{place}: {self.why or 'the wheel does not tell'}"
        return place if self.agrees else f"{place}: {self.stated!r}, found {self.found!r}"


def compare_wheel(matrix: Matrix, wheel: TorchWheel) -> tuple[Comparison, ...]:
    """Everything that rows say and a wheel can tell.

    Args:
        matrix: The tables.
        wheel: The wheel.
    """
    release = matrix.torch.release(wheel.version)
    if release is None:
        row = f"release {wheel.version}"
        return (Comparison(_TORCH, row, "row", "", f"published as {wheel.file}"),)
    return (
        *_release(release, wheel),
        *_published(release, wheel),
        *_tags(matrix, wheel),
        *_targets(matrix, wheel),
        *_wheel_requirements(matrix, wheel),
        *_code(matrix, wheel),
    )


def _place(array: str, wheel: TorchWheel) -> str:
    return f"{array} {wheel.version} {wheel.platform}"


def _release(release: TorchRelease, wheel: TorchWheel) -> Iterator[Comparison]:
    """The row of the release is about PyPI's wheel for Linux x86_64."""
    row = f"release {release.version}"
    stated, found = str(release.requires_python), str(SpecifierSet(wheel.requires_python))
    yield Comparison(_TORCH, row, "requires_python", stated, found)
    if wheel.platform != _REQUIRES_PLATFORM:
        return
    pins = {r.name: str(r.specifier) for r in gpu_requirements(wheel.requires)}
    yield Comparison(_TORCH, row, "triton", release.triton, pins.get("triton", ""))
    for field, text in (("cudnn", release.cudnn), ("nccl", release.nccl)):
        pinned = [pin for name, pin in pins.items() if name.startswith(f"nvidia-{field}-")]
        # Wheels before 2.0 carry these libraries inside.
        if pinned:
            yield Comparison(_TORCH, row, field, text, pinned[0].removeprefix("=="))


def _published(release: TorchRelease, wheel: TorchWheel) -> Iterator[Comparison]:
    row, platform = _place("pypi", wheel), wheel.platform
    backend, pythons = release.pypi.get(platform), release.pythons.get(platform, ())
    glibc, abi = release.glibc.get(platform), release.cxx11_abi.get(platform)
    found_abi = None if wheel.cxx11_abi is None else _flag(wheel.cxx11_abi)
    found_backend = None if wheel.backend is None else str(wheel.backend)
    yield Comparison(
        _TORCH, row, "backend", str(backend or ""), found_backend, _reason(wheel, "backend")
    )
    stated = wheel.python if wheel.python in pythons else " ".join(pythons)
    yield Comparison(_TORCH, row, "pythons", stated, wheel.python)
    yield _glibc(row, str(glibc or ""), wheel)
    yield _unread_or(
        Comparison(_TORCH, row, "cxx11_abi", "" if abi is None else _flag(abi), found_abi), wheel
    )


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _glibc(row: str, stated: str, wheel: TorchWheel) -> Comparison:
    """A library that was not read may ask for a newer one than those that were."""
    found = wheel.glibc
    partly = any(file.glibc is None and file.gaps for file in wheel.libraries)
    if found is None or (partly and (not stated or found < Version(stated))):
        return _unread_or(Comparison(_TORCH, row, "glibc", stated, None), wheel)
    return Comparison(_TORCH, row, "glibc", stated, str(found))


def _tags(matrix: Matrix, wheel: TorchWheel) -> Iterator[Comparison]:
    row = _place("wheel_tag", wheel)
    tags, builds = "", ""
    for stated in matrix.document(_LIBS).rows("wheel_tag"):
        versions = stated.values("torch", Version)
        if wheel.version in versions and stated.value("platform", Platform.parse) == wheel.platform:
            tags = " ".join(stated.words("tags"))
            builds = " ".join(stated.words("build_tags")) if stated.has("build_tags") else ""
    yield Comparison(_LIBS, row, "tags", tags, " ".join(wheel.tags))
    known = wheel.build_tag if wheel.build_tag in builds.split() else builds
    yield Comparison(_LIBS, row, "build_tags", known, wheel.build_tag)


def _targets(matrix: Matrix, wheel: TorchWheel) -> Iterator[Comparison]:
    backend = wheel.backend or matrix.torch.pypi_backend(wheel.version, wheel.platform)
    if backend is None or backend.cuda is None:
        return
    row = f"{_place('build', wheel)} {backend}"
    build = matrix.torch.build(wheel.version, backend, wheel.platform)
    targets = build.targets or () if build else ()
    cubins = _joined(target for target in targets if target.kind is CodeKind.CUBIN)
    ptx = _joined(target for target in targets if target.kind is CodeKind.PTX)
    flags = None if wheel.arch_flags is None else _joined(wheel.arch_flags)
    full, texts = _in_full(wheel.code)
    if not gpu_requirements(wheel.requires):
        full, texts = _held(targets, wheel.code)
    told = _joined(targets) if wheel.version >= _ARCH_STRING_SINCE else flags or ""
    for field, stated, found, library in (
        ("targets", told, flags, PYTHON_LIBRARY),
        ("cubins", cubins, full, CUDA_LIBRARY),
        ("ptx", ptx, texts, CUDA_LIBRARY),
    ):
        yield _unread_or(Comparison(_TORCH, row, field, stated, found), wheel, library)


def _in_full(code: Iterable[tuple[CodeTarget, int]] | None) -> tuple[str | None, str | None]:
    """The cubins and PTX that serve most operations: others come with a kernel or two."""
    if code is None:
        return None, None
    counts = dict(code)
    enough = max(counts.values(), default=0) / 2
    full = [target for target, count in counts.items() if count > enough]
    cubins, ptx = ([t for t in full if t.kind is kind] for kind in (CodeKind.CUBIN, CodeKind.PTX))
    return _joined(cubins), _joined(ptx)


def _held(
    targets: Iterable[CodeTarget], code: Iterable[tuple[CodeTarget, int]] | None
) -> tuple[str | None, str | None]:
    """The stated targets that are there, where NVIDIA's libraries and their code are linked in."""
    if code is None:
        return None, None
    counts = dict(code)
    held = [target for target in targets if counts.get(target)]
    cubins, ptx = ([t for t in held if t.kind is kind] for kind in (CodeKind.CUBIN, CodeKind.PTX))
    return _joined(cubins), _joined(ptx)


def _joined(targets: Iterable[CodeTarget]) -> str:
    return " ".join(map(str, sorted(targets)))


def _wheel_requirements(matrix: Matrix, wheel: TorchWheel) -> Iterator[Comparison]:
    if wheel.platform != _REQUIRES_PLATFORM:
        return
    row, stated = _place("requires", wheel), matrix.libs.requirements_of(wheel.version)
    found = gpu_requirements(wheel.requires)
    lines = "; ".join(sorted(map(bare, found)))
    written = "; ".join(sorted(bare(Requirement(r)) for r in stated.requires)) if stated else ""
    yield Comparison(_LIBS, row, "requires", written, lines)
    marker = stated.triton_marker if stated else ""
    yield Comparison(_LIBS, row, "triton_marker", marker, triton_marker(found))
    commit = stated.commit if stated else ""
    yield Comparison(_LIBS, row, "commit", commit, wheel.commit, _reason(wheel, "backend"))


def gpu_requirements(requires: Iterable[str]) -> tuple[Requirement, ...]:
    """The requirements on NVIDIA's packages, CUDA's Python packages and triton, without extras."""
    found = []
    for text in requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        of_extra = requirement.marker is not None and "extra ==" in str(requirement.marker)
        if canonicalize_name(requirement.name).startswith(_OURS) and not of_extra:
            found.append(requirement)
    return tuple(found)


def bare(requirement: Requirement) -> str:
    """A requirement without its marker, extras and bounds in canonical order."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{canonicalize_name(requirement.name)}{extras}{requirement.specifier}"


def triton_marker(requires: Iterable[Requirement]) -> str:
    """The marker of the requirement on triton; empty without one."""
    markers = (r.marker for r in requires if canonicalize_name(r.name) == "triton")
    return next((str(marker) for marker in markers if marker is not None), "")


def _code(matrix: Matrix, wheel: TorchWheel) -> Iterator[Comparison]:
    """Counts are recorded of some wheels only."""
    place = (wheel.version, wheel.platform)
    found = None if wheel.code is None else _counts(wheel.code)
    for stated in matrix.libs.machine_code:
        if (stated.torch, stated.platform) == place:
            row = Comparison(_LIBS, _place("fatbin", wheel), "code", _counts(stated.counts), found)
            yield _unread_or(row, wheel, CUDA_LIBRARY)


def _counts(counts: Iterable[tuple[CodeTarget, int]]) -> str:
    return " ".join(f"{target}={count}" for target, count in sorted(counts))


def _unread_or(comparison: Comparison, wheel: TorchWheel, library: str = "") -> Comparison:
    """The comparison, with the reason where its library, or any, was not read."""
    if comparison.found is not None:
        return comparison
    missing = [
        (name, gap)
        for file in wheel.libraries
        for gap in file.gaps
        if (name := file.path.rpartition("/")[2]) == (library or name)
    ]
    words = "; ".join(f"{name}: {gap.detail}" for name, gap in missing)
    asked = any(gap.reason is not GapReason.NOT_ASKED for _, gap in missing) or not missing
    return replace(comparison, why=words, is_asked_for=asked)


def _reason(wheel: TorchWheel, fact: str) -> str:
    return next((gap.detail for gap in wheel.gaps if gap.fact == fact), "")
