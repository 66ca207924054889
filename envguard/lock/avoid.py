"""Which releases of a package cannot go with a torch build, by the tables of the matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.lock.companions import torch_family
from envguard.lock.intervals import Interval, interval_of, runs_of
from envguard.lock.situation import Situation, admits
from envguard.matrix.package_rows import Coverage, Mismatch, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.matrix.breaks import Break
    from envguard.matrix.loader import Matrix
    from envguard.matrix.package_rows import PackageRange, PackageRelease
    from envguard.matrix.packages import PackageTable
    from envguard.matrix.rows import Provenance

# What a program cannot start without, and what it can do without until it needs it.
_FATAL = frozenset({Scope.IMPORT, Scope.RUNTIME, Scope.NUMPY_INTEROP})
_WANTED = frozenset({Scope.OP_BUILD, Scope.EXTENSION_BUILD, Scope.CHECKPOINT_LOAD})
_HARMFUL = frozenset({Mismatch.IMPORT, Mismatch.ABORT, Mismatch.NO_KERNELS})
_SETTLED = frozenset({"torch", "torch_cuda", "python", "cuda_toolkit"})


@dataclass(frozen=True, slots=True)
class Avoid:
    """A reason to stay away from some releases of a package.

    Args:
        package: Normalised name.
        versions: Those releases.
        reason: Why, in one line without a final stop.
        source: Where that is known from.
        is_needed: Nothing works without it; False: only some uses fail, or it is not certain.
    """

    package: str
    versions: tuple[Interval, ...]
    reason: str
    source: str
    is_needed: bool


def is_grave(row: Break) -> bool:
    """Whether a known break is worth a bound: it bites whoever uses the packages."""
    return not row.feature and row.scope in _FATAL | _WANTED


def is_needed(row: Break) -> bool:
    """Whether nothing works while a known break holds."""
    return row.scope in _FATAL and row.provenance.is_firm and not row.beside


def avoided_by_breaks(
    situation: Situation, names: frozenset[str], matrix: Matrix
) -> Iterator[Avoid]:
    """Known breaks that come down to releases of one package in this situation.

    Args:
        situation: What is settled.
        names: The packages in question.
        matrix: The tables.
    """
    settled = {*situation.versions, "platform"}
    for row in matrix.breaks.about(settled | names):
        package = _only_open(row, situation)
        if package is None or not is_grave(row) or row.any_of or row.predicate or row.handled_by:
            continue
        if row.beside and row.beside not in names:
            continue
        versions = interval_of(row.when[package])
        if versions is not None and (row.scope is not Scope.CHECKPOINT_LOAD or versions.high):
            source = row.provenance.source.url
            yield Avoid(package, (versions,), row.title, source, is_needed(row))


def _only_open(row: Break, situation: Situation) -> str | None:
    """The one package that the break is about, where all its other conditions hold."""
    settled = situation.versions
    rest = [name for name in row.when if name not in _SETTLED]
    if len(rest) != 1 or row.platform not in {"", situation.system}:
        return None
    conditions = ((name, bound) for name, bound in row.when.items() if name in _SETTLED)
    holds = all(n in settled and admits(bound, settled[n]) for n, bound in conditions)
    return rest[0] if holds else None


def avoided_by_table(package: str, situation: Situation, matrix: Matrix) -> Iterator[Avoid]:
    """What a package's own table says about this build and these GPUs."""
    table = matrix.packages(package)
    if table is None or table.is_source_only or package == "torch":
        return
    # The PyTorch index has it in a build for torch's own CUDA.
    is_routed = package in torch_family(matrix)
    for row in table.ranges():
        if (versions := interval_of(row.versions)) is None:
            continue
        for why, needed in _against_range(package, row, situation, is_routed=is_routed):
            yield _avoid(package, (versions,), why, row.provenance, is_needed=needed)
    if table.coverage is Coverage.ALL and _is_about_builds(table):
        is_compared = not is_routed and not any(row.cuda for row in table.ranges())
        yield from _against_releases(package, table, situation, is_cuda_compared=is_compared)


def _is_about_builds(table: PackageTable) -> bool:
    """Whether its releases say which CUDA they were built for; reading them all takes time."""
    return any(row.has("cuda") or row.has("cudas") for row in table.document.rows("release"))


def _against_range(
    package: str, row: PackageRange, situation: Situation, *, is_routed: bool
) -> Iterator[tuple[str, bool]]:
    """What speaks against a range of releases, and whether nothing works because of it."""
    which = f"{package} {row.versions}".strip()
    for name, bound in row.needs.items():
        found = situation.versions.get(name)
        if found is not None and row.scope in _FATAL and not admits(bound, found):
            spoken = "torch for CUDA " if name == "torch_cuda" else f"{name} "
            yield f"{which} needs {spoken}{bound}, for {row.feature}", True
    if row.mismatch in _HARMFUL and row.torch and not admits(row.torch, situation.torch):
        yield f"{which} is compiled for torch {row.torch}", True
    if situation.cuda is None:
        return
    built = row.cuda.major if row.cuda else None
    if built not in {None, situation.cuda.major} and not is_routed:
        yield f"{which} is built for CUDA {built}", row.mismatch is not Mismatch.DEGRADED
    lowest = situation.capability
    if row.capability and lowest and row.scope is Scope.RUNTIME and lowest < row.capability:
        yield f"{which} serves compute capability {row.capability} and above, not {lowest}", True


def _against_releases(
    package: str, table: PackageTable, situation: Situation, *, is_cuda_compared: bool
) -> Iterator[Avoid]:
    """Releases one by one: the torch and the CUDA that their compiled files are for."""
    releases, cuda = table.releases, situation.cuda
    other_torch = [r for r in releases if r.torch and not admits(r.torch, situation.torch)]
    words = f"these releases of {package} are not compiled for torch {situation.torch}"
    yield from _against(package, other_torch, releases, words)
    if cuda is None:
        return
    if is_cuda_compared:
        other = [r for r in releases if r.cuda and r.cuda.major not in {None, cuda.major}]
        words = f"these releases of {package} are built for another CUDA than {cuda.major}"
        yield from _against(package, other, releases, words)
    bare = [r for r in releases if r.libraries and not _has_library(table, r, situation)]
    yield from _against(
        package, bare, releases, f"these releases of {package} pack no library for CUDA {cuda}"
    )


def _against(
    package: str, bad: list[PackageRelease], releases: tuple[PackageRelease, ...], words: str
) -> Iterator[Avoid]:
    if bad:
        runs = runs_of({r.version for r in bad}, [r.version for r in releases])
        yield _avoid(package, tuple(runs), words, bad[-1].provenance)


def _has_library(table: PackageTable, release: PackageRelease, situation: Situation) -> bool:
    cuda = situation.cuda
    if any(row.takes_same_major for row in table.ranges(release.version)):
        return any(cuda and one.major == cuda.major for one in release.libraries)
    return cuda in release.libraries


def _avoid(
    package: str,
    versions: tuple[Interval, ...],
    reason: str,
    provenance: Provenance,
    *,
    is_needed: bool = True,
) -> Avoid:
    needed = is_needed and provenance.is_firm
    return Avoid(package, versions, reason, provenance.source.url, needed)
