"""What the matrix adds for the resolver: bounds, excluded releases, cures of known breaks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from envguard.conditions import (
    ABSENCES,
    NOT_DISTRIBUTIONS,
    KnownValues,
    admits,
    break_holds,
    contradicted,
)
from envguard.facts.sentences import say
from envguard.facts.versions import ComputeCapability, CudaVersion
from envguard.lock.companions import torch_family
from envguard.matrix.packages import BreakScope, Coverage, Mismatch
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from packaging.specifiers import Specifier

    from envguard.lock.pins import Pin
    from envguard.lock.request import LockRequest
    from envguard.matrix.breaks import Break
    from envguard.matrix.loader import Matrix
    from envguard.matrix.packages import PackageRange, PackageRelease, PackageTable
    from envguard.matrix.rows import Provenance, TorchBuildRow


@dataclass(frozen=True, slots=True)
class Interval:
    """Every version between two ends.

    packaging's ``VersionRange`` is no substitute: its ends are private, and what lies outside of
    ``<2`` is for it ``>=2.dev0``, which no resolver takes and no reader wants to see.

    Args:
        low: Lower end; None for none.
        high: Upper end; None for none.
        has_low: The lower end belongs to it.
        has_high: The upper end belongs to it.
    """

    low: Version | None = None
    high: Version | None = None
    has_low: bool = True
    has_high: bool = False

    @property
    def specifier(self) -> SpecifierSet:
        """The same as a specifier."""
        parts = []
        if self.low is not None:
            parts.append(f"{'>=' if self.has_low else '>'}{self.low}")
        if self.high is not None:
            parts.append(f"{'<=' if self.has_high else '<'}{self.high}")
        return SpecifierSet(",".join(parts))

    @property
    def is_empty(self) -> bool:
        """Whether no version lies in it."""
        if self.low is None or self.high is None:
            return False
        if self.low == self.high:
            return not (self.has_low and self.has_high)
        return self.low > self.high

    @property
    def is_point(self) -> bool:
        """Whether it is one version."""
        return self.low is not None and self.low == self.high and not self.is_empty

    def contains(self, version: Version) -> bool:
        """Whether a version lies in it."""
        if self.low is not None and (
            version < self.low or (version == self.low and not self.has_low)
        ):
            return False
        if self.high is None or version < self.high:
            return True
        return version == self.high and self.has_high


def interval_of(specifier: SpecifierSet) -> Interval | None:
    """The stretch that a specifier holds; None where it is not one stretch."""
    found = Interval()
    for clause in specifier:
        part = _part(clause)
        if part is None:
            return None
        found = _meet(found, part)
    return found


def _part(clause: Specifier) -> Interval | None:
    text = clause.version
    match clause.operator:
        case ">=":
            return Interval(low=Version(text))
        case ">":
            return Interval(low=Version(text), has_low=False)
        case "<":
            return Interval(high=Version(text))
        case "<=":
            return Interval(high=Version(text), has_high=True)
        case "==" if text.endswith(".*"):
            low = Version(text[:-2])
            return Interval(low, _after(low))
        case "==":
            return Interval(Version(text), Version(text), has_high=True)
        case _:
            return None


def _after(version: Version) -> Version:
    *head, last = version.release
    return Version(".".join(map(str, (*head, last + 1))))


def _meet(one: Interval, other: Interval) -> Interval:
    lower, upper = max(one, other, key=_start), min(one, other, key=_end)
    return Interval(lower.low, upper.high, lower.has_low, upper.has_high)


def _start(one: Interval) -> tuple[Version, bool] | tuple[()]:
    """Where it begins, to compare with others; no end is before all."""
    return (one.low, not one.has_low) if one.low is not None else ()


def _end(one: Interval) -> tuple[bool, Version, bool] | tuple[bool]:
    """Where it ends, likewise; no end is after all."""
    return (False, one.high, one.has_high) if one.high is not None else (True,)


def runs_of(bad: Collection[Version], known: Sequence[Version]) -> list[Interval]:
    """Neighbouring releases as stretches that reach up to the next release that is none of them.

    Args:
        bad: Some of the releases.
        known: Every release, oldest first. What is newer counts like the last of them.
    """
    found: list[Interval] = []
    start: Version | None = None
    is_first = False
    for position, version in enumerate(known):
        if version in bad and start is None:
            start, is_first = version, position == 0
        elif version not in bad and start is not None:
            found.append(Interval(None if is_first else start, version))
            start = None
    if start is not None:
        found.append(Interval(None if is_first else start, None))
    return found


def outside(intervals: Iterable[Interval]) -> list[Interval]:
    """What lies in none of some stretches, newest first."""
    found: list[Interval] = []
    rest = Interval()
    for one in sorted(intervals, key=_start):
        if one.low is not None:
            below = _meet(rest, Interval(high=one.low, has_high=not one.has_low))
            if not below.is_empty:
                found.append(below)
        if one.high is None:
            return found[::-1]
        rest = _meet(rest, Interval(low=one.high, has_low=not one.has_high))
    return [rest, *found[::-1]]


@dataclass(frozen=True, slots=True)
class BuildTarget:
    """The facts that rows of the matrix are compared with.

    Args:
        torch: Public version of the torch build; None where it is left open.
        cuda: Its CUDA; None for a CPU build.
        python: Version with three parts.
        system: ``linux``, ``windows`` or ``macos``.
        capability: The lowest compute capability among the machines' GPUs; None when not known.
        capabilities: All of them.
    """

    torch: Version | None
    cuda: CudaVersion | None
    python: Version
    system: str
    capability: ComputeCapability | None = None
    capabilities: tuple[ComputeCapability, ...] = ()

    @property
    def versions(self) -> Mapping[str, Version]:
        """By the names that conditions use."""
        found = {"python": self.python}
        if self.torch is not None:
            found["torch"] = self.torch
        if self.cuda is not None:
            found["torch_cuda"] = Version(str(self.cuda))
        return found

    def known(self, resolved: Mapping[str, Version] | None = None) -> KnownValues:
        """What conditions are compared with.

        Args:
            resolved: Every package that is installed; None for not known yet.
        """
        versions = {**(resolved or {}), **self.versions}
        names = None if resolved is None else frozenset(versions)
        return KnownValues(versions, self.system, names, cuda=self.cuda)


def build_target_of(build: TorchBuildRow, request: LockRequest) -> BuildTarget:
    """What is settled when a build is tried for a request."""
    capabilities = [
        gpu.capability
        for machine in request.machines
        for gpu in machine.selected_gpus
        if gpu.capability is not None
    ]
    python = request.target.python
    return BuildTarget(
        torch=build.version,
        cuda=build.backend.cuda,
        python=Version(f"{python.major}.{python.minor}.0"),
        system=build.platform.system.value,
        capability=min(capabilities, default=None),
        capabilities=tuple(sorted(set(capabilities))),
    )


# What a program can do without until it needs it.
_WANTED = frozenset({BreakScope.OP_BUILD, BreakScope.EXTENSION_BUILD, BreakScope.CHECKPOINT_LOAD})
_HARMFUL = frozenset({Mismatch.IMPORT, Mismatch.ABORT, Mismatch.NO_KERNELS})


@dataclass(frozen=True, slots=True)
class Exclusion:
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
    return not row.feature and (row.scope.is_fatal or row.scope in _WANTED)


def is_needed(row: Break) -> bool:
    """Whether nothing works while a known break holds."""
    return row.scope.is_fatal and row.provenance.is_firm and not row.beside


def exclusions_of_breaks(
    situation: BuildTarget, names: frozenset[str], matrix: Matrix
) -> Iterator[Exclusion]:
    """Known breaks that come down to releases of one package in this situation.

    Args:
        situation: What is settled.
        names: The packages in question.
        matrix: The tables.
    """
    known = situation.known()
    for row in matrix.breaks.about(known.names | names):
        package = _only_open(row, known)
        if package is None or not is_grave(row) or row.any_of or row.predicate or row.handled_by:
            continue
        if row.beside and row.beside not in names:
            continue
        versions = interval_of(row.when[package])
        if versions is not None and (row.scope is not BreakScope.CHECKPOINT_LOAD or versions.high):
            source = row.provenance.source.url
            yield Exclusion(package, (versions,), row.title, source, is_needed(row))


def _only_open(row: Break, known: KnownValues) -> str | None:
    """The one package that the break is about, where all its other conditions hold."""
    rest = [name for name in row.when if name not in known.versions]
    if len(rest) != 1 or break_holds(row, known) is False:
        return None
    return rest[0]


def exclusions_of_table(
    package: str, situation: BuildTarget, matrix: Matrix
) -> Iterator[Exclusion]:
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
    package: str, row: PackageRange, situation: BuildTarget, *, is_routed: bool
) -> Iterator[tuple[str, bool]]:
    """What speaks against a range of releases, and whether nothing works because of it."""
    which = f"{package} {row.versions}".strip()
    unmet = contradicted(row.needs, situation.versions) if row.scope.is_fatal else {}
    for name, bound in unmet.items():
        spoken = "torch for CUDA " if name == "torch_cuda" else f"{name} "
        yield (
            say(
                "{release} needs {what}{bound}, for {feature}",
                release=which,
                what=spoken,
                bound=bound,
                feature=row.feature,
            ),
            True,
        )
    torch = situation.torch
    if torch and row.mismatch in _HARMFUL and row.torch and not admits(row.torch, torch):
        yield say("{release} is compiled for torch {torch}", release=which, torch=row.torch), True
    if situation.cuda is None:
        return
    built = row.cuda.major if row.cuda else None
    if built not in {None, situation.cuda.major} and not is_routed:
        yield (
            say("{release} is built for CUDA {built}", release=which, built=built),
            row.mismatch is not Mismatch.DEGRADED,
        )
    lowest = (situation.capability,) if situation.capability else ()
    kinds = situation.capabilities or lowest
    unserved = [one for one in kinds if not row.serves(one)]
    if unserved and row.capability and row.scope is BreakScope.RUNTIME:
        yield (
            say(
                "{release} serves compute capability {capability} {end}, not {unserved}",
                release=which,
                capability=row.capability,
                end=f"to below {row.capability_end}" if row.capability_end else "and above",
                unserved=", ".join(map(str, unserved)),
            ),
            True,
        )


def _against_releases(
    package: str, table: PackageTable, situation: BuildTarget, *, is_cuda_compared: bool
) -> Iterator[Exclusion]:
    """Releases one by one: the torch and the CUDA that their compiled files are for."""
    releases, cuda, torch = table.releases, situation.cuda, situation.torch
    other_torch = [r for r in releases if torch and r.torch and not admits(r.torch, torch)]
    words = say(
        "these releases of {package} are not compiled for torch {torch}",
        package=package,
        torch=torch,
    )
    yield from _against(package, other_torch, releases, words)
    if cuda is None:
        return
    if is_cuda_compared:
        other = [r for r in releases if r.cuda and r.cuda.major not in {None, cuda.major}]
        words = say(
            "these releases of {package} are built for another CUDA than {major}",
            package=package,
            major=cuda.major,
        )
        yield from _against(package, other, releases, words)
    bare = [r for r in releases if r.libraries and not _has_library(table, r, situation)]
    yield from _against(
        package,
        bare,
        releases,
        say(
            "these releases of {package} pack no library for CUDA {cuda}",
            package=package,
            cuda=cuda,
        ),
    )


def _against(
    package: str, bad: list[PackageRelease], releases: tuple[PackageRelease, ...], words: str
) -> Iterator[Exclusion]:
    if bad:
        runs = runs_of({r.version for r in bad}, [r.version for r in releases])
        yield _avoid(package, tuple(runs), words, bad[-1].provenance)


def _has_library(table: PackageTable, release: PackageRelease, situation: BuildTarget) -> bool:
    cuda = situation.cuda
    if any(row.cuda_choice == "same-major" for row in table.ranges(release.version)):
        return any(cuda and one.major == cuda.major for one in release.libraries)
    return cuda in release.libraries


def _avoid(
    package: str,
    versions: tuple[Interval, ...],
    reason: str,
    provenance: Provenance,
    *,
    is_needed: bool = True,
) -> Exclusion:
    needed = is_needed and provenance.is_firm
    return Exclusion(package, versions, reason, provenance.source.url, needed)


_LOWEST = Version("0")


@dataclass(frozen=True, slots=True)
class MatrixBound:
    """A bound on a package that its metadata does not state.

    Args:
        requirement: What the resolver is told.
        reason: Why, in one line.
        source: Where that is known from.
        is_needed: Nothing works without it; False: given up where it leaves no solution.
        is_asked_for: The package has to be there; False: only if something asks for it.
        otherwise: Other bounds that do as well, where this one leaves no solution.
    """

    requirement: Requirement
    reason: str
    source: str
    is_needed: bool = True
    is_asked_for: bool = False
    otherwise: tuple[MatrixBound, ...] = ()

    @property
    def name(self) -> str:
        """Normalised name of the package."""
        return canonicalize_name(self.requirement.name)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the matrix has to say about a request with one torch build.

    Args:
        items: The bounds, by package.
        against: Why the request cannot go with the build; empty when it can.
        notes: What the user's own bounds overrule.
    """

    items: tuple[MatrixBound, ...] = ()
    against: str = ""
    notes: tuple[str, ...] = ()


def bounds_for(
    names: Iterable[str], situation: BuildTarget, request: LockRequest, matrix: Matrix
) -> Bounds:
    """The bounds on some packages beside a torch build.

    Args:
        names: Normalised names of the packages in question.
        situation: What is settled.
        request: Its own bounds decide which of several good stretches of releases is taken.
        matrix: The tables.
    """
    wanted = frozenset(names) - {"torch"}
    by_package: dict[str, list[Exclusion]] = {}
    for avoid in exclusions_of_breaks(situation, wanted, matrix):
        by_package.setdefault(avoid.package, []).append(avoid)
    for name in sorted(wanted & matrix.package_names):
        for avoid in exclusions_of_table(name, situation, matrix):
            by_package.setdefault(name, []).append(avoid)
    found = [_bound_package(n, by_package[n], request, matrix) for n in sorted(by_package)]
    return Bounds(
        tuple(item for one in found for item in one.items),
        "; ".join(one.against for one in found if one.against),
        tuple(note for one in found for note in one.notes),
    )


def _bound_package(
    name: str, avoids: Sequence[Exclusion], request: LockRequest, matrix: Matrix
) -> Bounds:
    stated = request.bounds_on(canonicalize_name(name))
    points = _points(name, avoids, stated, matrix)
    admitted = [p for p in points if stated.contains(p, prereleases=True)]
    needed = [avoid for avoid in avoids if avoid.is_needed]
    wishes = [avoid for avoid in avoids if not avoid.is_needed]
    rooms = _rooms(needed, admitted)
    if not rooms:
        reasons = "; ".join(_reasons(needed, admitted))
        return Bounds(
            against=say(
                "the request says {name}{bounds}, but {reasons}",
                name=name,
                bounds=stated,
                reasons=reasons,
            )
        )
    better = _rooms(avoids, admitted)
    if not better:
        notes = tuple(
            say("{name}{bounds}: {reason}", name=name, bounds=stated, reason=reason)
            for reason in _reasons(wishes, admitted)
        )
        return Bounds(tuple(_bounds_around(name, needed, rooms, matrix)), notes=notes)
    hard = _bounds_around(name, needed, better, matrix)
    return Bounds((*hard, *_bounds_around(name, wishes, better, matrix)))


def _rooms(avoids: Iterable[Exclusion], admitted: Sequence[Version]) -> list[Interval]:
    """The stretches of releases without trouble in which the user's bounds leave some."""
    stretches = [stretch for avoid in avoids for stretch in avoid.versions]
    single = {stretch.low for stretch in stretches if stretch.is_point}
    # One bad release is left out and parts nothing.
    rooms = outside(stretch for stretch in stretches if not stretch.is_point)
    open_ = [version for version in admitted if version not in single]
    held = [room for room in rooms if any(room.contains(p) for p in open_)]
    # The lowest version stands for whatever is older than all that is known: a last resort.
    known = [room for room in held if any(room.contains(p) for p in open_ if p != _LOWEST)]
    return known or held


def _reasons(avoids: Iterable[Exclusion], admitted: Sequence[Version]) -> tuple[str, ...]:
    """The reasons that concern a release within the user's bounds."""
    biting = (
        avoid.reason
        for avoid in avoids
        if any(stretch.contains(p) for stretch in avoid.versions for p in admitted)
    )
    return tuple(dict.fromkeys(biting))


def _points(
    name: str, avoids: Iterable[Exclusion], stated: SpecifierSet, matrix: Matrix
) -> tuple[Version, ...]:
    """Versions that stand for all others when stretches and bounds are compared."""
    ends = {v for a in avoids for i in a.versions for v in (i.low, i.high) if v is not None}
    texts = (clause.version.removesuffix(".*") for clause in stated if clause.operator != "===")
    known = _release_versions(name, matrix) if stated else ()
    return tuple({_LOWEST, *ends, *map(Version, texts), *known})


def _bounds_around(
    name: str, avoids: Iterable[Exclusion], rooms: Sequence[Interval], matrix: Matrix
) -> Iterator[MatrixBound]:
    """The reasons that bound the rooms most tightly at both ends, and what lies between rooms.

    Where not every release is known, what lies between cannot be left out one by one: then only
    the newest room is taken.
    """
    between = _release_versions(name, matrix) if len(rooms) > 1 else ()
    oldest, newest = (rooms[-1] if between else rooms[0]), rooms[0]
    hull = Interval(oldest.low, newest.high, oldest.has_low, newest.has_high)
    lower: tuple[Version, Exclusion] | None = None
    upper: tuple[Version, Exclusion] | None = None
    for avoid in avoids:
        inside: list[Version] = []
        for bad in avoid.versions:
            if bad.high is not None and hull.low is not None and bad.high <= hull.low:
                lower = max(lower or (bad.high, avoid), (bad.high, avoid), key=lambda p: p[0])
            elif bad.low is not None and hull.high is not None and bad.low >= hull.high:
                upper = min(upper or (bad.low, avoid), (bad.low, avoid), key=lambda p: p[0])
            elif bad.is_point and bad.low is not None:
                inside.append(bad.low)
            else:
                inside.extend(v for v in between if bad.contains(v) and hull.contains(v))
        if inside:
            yield _bound(name, ",".join(f"!={version}" for version in sorted(inside)), avoid)
    if lower is not None:
        yield _bound(name, _edge(lower, is_lower=True), lower[1])
    if upper is not None:
        yield _bound(name, _edge(upper, is_lower=False), upper[1])


def _release_versions(name: str, matrix: Matrix) -> tuple[Version, ...]:
    """Every release of a package; empty where the table does not hold them all."""
    table = matrix.packages(name)
    if table is None or table.coverage is not Coverage.ALL:
        return ()
    return table.versions


def _edge(end: tuple[Version, Exclusion], *, is_lower: bool) -> str:
    version, avoid = end
    if is_lower:
        touching = any(bad.high == version and bad.has_high for bad in avoid.versions)
        return f"{'>' if touching else '>='}{version}"
    touching = any(bad.low == version and bad.has_low for bad in avoid.versions)
    return f"{'<' if touching else '<='}{version}"


def _bound(name: str, text: str, avoid: Exclusion) -> MatrixBound:
    return MatrixBound(Requirement(f"{name}{text}"), avoid.reason, avoid.source, avoid.is_needed)


_NOT_PACKAGES = NOT_DISTRIBUTIONS | {"torch"}


def find_repairs(
    pins: Iterable[Pin],
    known: frozenset[str],
    situation: BuildTarget,
    request: LockRequest,
    matrix: Matrix,
) -> Bounds:
    """What has to change in a resolution.

    Args:
        pins: The resolution.
        known: Names of the packages that were bounded before it.
        situation: What was settled before it.
        request: Its own bounds decide which of several cures is taken.
        matrix: The tables.

    Returns:
        Further bounds; none when the resolution stands.
    """
    versions = {str(pin.name): pin.version for pin in pins}
    fresh = bounds_for(versions.keys() - known, situation, request, matrix)
    found = [fresh] if fresh.against else []
    broken = [item for item in fresh.items if is_outside(item, versions)]
    resolved = situation.known(versions)
    found.extend(
        _cure(row, versions, request)
        for row in matrix.breaks.about(resolved.names)
        if _is_seen_late(row) and row.beside in {"", *resolved.names} and break_holds(row, resolved)
    )
    return Bounds(
        (*broken, *(item for one in found for item in one.items)),
        "; ".join(one.against for one in found if one.against),
        tuple(note for one in found for note in one.notes),
    )


def is_outside(item: MatrixBound, versions: Mapping[str, Version]) -> bool:
    """Whether a resolved package is not within a bound."""
    return item.name in versions and not admits(item.requirement.specifier, versions[item.name])


def _is_seen_late(row: Break) -> bool:
    """Whether it takes a resolution to tell: several packages, or the absence of one."""
    packages = row.when.keys() - _NOT_PACKAGES
    is_joint = len(packages) > 1 and not row.predicate
    return is_grave(row) and not row.handled_by and (is_joint or row.predicate in ABSENCES)


def _cure(row: Break, versions: Mapping[str, Version], request: LockRequest) -> Bounds:
    """The first of the cures that the user's own bounds leave open, with the second at hand."""
    cures = [
        tuple(_cure_bound(name, cure[name], row, versions) for name in sorted(cure))
        for cure in (row.fix, row.alternative)
        if cure and not cure.keys() & _NOT_PACKAGES and _is_open(cure, request)
    ]
    if cures:
        (first, *further), others = cures[0], tuple(item for cure in cures[1:] for item in cure)
        return Bounds((replace(first, otherwise=others), *further))
    involved = ", ".join(f"{name} {versions[name]}" for name in row.when if name in versions)
    if is_needed(row):
        return Bounds(against=f"{involved}: {row.title}")
    return Bounds(notes=(say("{packages}: {title}", packages=involved, title=row.title),))


def _is_open(cure: Mapping[str, SpecifierSet], request: LockRequest) -> bool:
    """Whether no exact pin of the user stands against it."""
    for name, bound in cure.items():
        stated = request.bounds_on(canonicalize_name(name))
        pinned = [c.version for c in stated if c.operator == "==" and not c.version.endswith("*")]
        if any(not admits(bound, Version(version)) for version in pinned):
            return False
    return True


def _cure_bound(
    name: str, bound: SpecifierSet, row: Break, versions: Mapping[str, Version]
) -> MatrixBound:
    return MatrixBound(
        Requirement(f"{name}{bound}"),
        row.title,
        row.provenance.source.url,
        is_needed(row),
        is_asked_for=name not in versions,
    )
