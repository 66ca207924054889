"""One torch build, made ready to be tried: bounds of the matrix, prebuilt wheels, the problem."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envguard.conditions import admits, bounds_hold
from envguard.facts.sentences import say
from envguard.lock.companions import companion_constraints, expected_companions, torch_family
from envguard.lock.constraints import Bounds, BuildTarget, MatrixBound, bounds_for, build_target_of
from envguard.lock.project import Problem
from envguard.matrix.packages import BreakScope
from envguard.matrix.rows import TorchBuildRow
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Sequence

    from packaging.specifiers import SpecifierSet
    from packaging.utils import NormalizedName
    from packaging.version import Version

    from envguard.lock.prebuilt_rows import WheelMatrix
    from envguard.lock.request import LockRequest
    from envguard.matrix.loader import Matrix
    from envguard.web.releases import Releases

# Packages that others bring along without naming them in a request.
_USUAL = frozenset({"numpy", "setuptools"})


@dataclass(frozen=True, slots=True)
class PreparedBuild:
    """A build and everything that is known before the resolver starts.

    Args:
        build: The build.
        situation: What is settled with it.
        problem: For the resolver.
        bounds: What the matrix adds.
        bounded: Names of the packages that the matrix was asked about.
        wheels: Prebuilt wheels that are taken, by address.
        missing: Extensions without a prebuilt wheel for this build, and whether building them
            on the machine would help.
        from_source: Extensions that are built on the machine.
        against: Why the build cannot serve; empty when it can.
        notes: Remarks for the reader.
    """

    build: TorchBuildRow
    situation: BuildTarget
    problem: Problem
    bounds: tuple[MatrixBound, ...] = ()
    bounded: frozenset[str] = frozenset()
    wheels: tuple[Requirement, ...] = ()
    missing: tuple[tuple[str, bool], ...] = ()
    from_source: tuple[str, ...] = ()
    against: str = ""
    notes: tuple[str, ...] = ()

    def with_bounds(self, found: Bounds, names: Iterable[str]) -> PreparedBuild:
        """The same with further bounds."""
        items = (*self.bounds, *found.items)
        asked = [item.requirement for item in found.items if item.is_asked_for]
        bounds = [item.requirement for item in found.items if not item.is_asked_for]
        problem = replace(
            self.problem,
            requirements=(*self.problem.requirements, *asked),
            constraints=(*self.problem.constraints, *bounds),
        )
        return replace(
            self,
            problem=problem,
            bounds=items,
            bounded=self.bounded | set(names),
            notes=tuple(dict.fromkeys((*self.notes, *found.notes))),
        )

    def without_wishes(self) -> PreparedBuild:
        """The same with only those bounds without which nothing works."""
        given_up = [item for item in self.bounds if not item.is_needed]
        found = self._without(given_up)
        notes = (
            say(
                "{requirement} is not kept: {reason}",
                requirement=item.requirement,
                reason=item.reason,
            )
            for item in given_up
        )
        return replace(found, notes=(*found.notes, *notes))

    def with_other_cures(self, names: Container[str]) -> PreparedBuild:
        """The same with the other cure wherever the first bounds one of some packages."""
        others = [item for item in self.bounds if item.otherwise and item.name in names]
        came = tuple(other for item in others for other in item.otherwise)
        return self._without(others).with_bounds(Bounds(came), ())

    def _without(self, gone: Collection[MatrixBound]) -> PreparedBuild:
        texts = {str(item.requirement) for item in gone}
        asked = {str(item.requirement) for item in gone if item.is_asked_for}
        problem = replace(
            self.problem,
            requirements=tuple(r for r in self.problem.requirements if str(r) not in asked),
            constraints=tuple(r for r in self.problem.constraints if str(r) not in texts),
        )
        bounds = tuple(item for item in self.bounds if item not in gone)
        return replace(self, problem=problem, bounds=bounds)


def prepare_build(
    build: TorchBuildRow, request: LockRequest, matrix: Matrix, releases: Releases
) -> PreparedBuild:
    """Make a build ready to be tried.

    Args:
        build: The build.
        request: What is asked.
        matrix: The tables.
        releases: Where prebuilt wheels are looked for.

    Raises:
        NetworkError: Whether a prebuilt wheel exists could not be found out.
    """
    situation = build_target_of(build, request)
    problem = make_problem(build, request, matrix)
    names = request.names | _USUAL
    found = bounds_for(names, situation, request, matrix)
    prepared = PreparedBuild(build, situation, problem).with_bounds(found, names)
    if found.against:
        return replace(prepared, against=found.against)
    for name in sorted(request.names & matrix.package_names):
        table = matrix.packages(name)
        if table is not None and "wheel_url" in table.document.data:
            from envguard.lock.prebuilt_rows import WheelMatrix  # few requests name an extension

            wheels = WheelMatrix(table)
            prepared = _with_extension(prepared, wheels, request, matrix, releases)
    return prepared


def torch_among(versions: Collection[Version], matrix: Matrix) -> Requirement:
    """A bound that admits some releases of torch and no other."""
    low, high = min(versions), max(versions)
    known = (release.version for release in matrix.torch.releases)
    between = sorted(v for v in known if low < v < high and v not in versions)
    gaps = "".join(f",!={version}" for version in between)
    return Requirement(f"torch>={low},<={high}{gaps}")


def prepare_open(
    builds: Sequence[TorchBuildRow],
    request: LockRequest,
    matrix: Matrix,
    bounds: Iterable[Requirement] = (),
) -> PreparedBuild:
    """The builds of one backend with torch left open, which is decided after all other packages.

    Extensions with prebuilt wheels are left out: which builds have one is known beforehand.

    Args:
        builds: Best first.
        request: What is asked.
        matrix: The tables.
        bounds: Further ones.
    """
    first = builds[0]
    versions = {build.version for build in builds}
    situation = build_target_of(first, request)
    situation = replace(situation, torch=None) if len(versions) > 1 else situation
    extensions = extension_names(request, matrix)
    problem = make_problem(first, request, matrix)
    family = [r for r in request.requirements if canonicalize_name(r.name) in problem.family]
    named = [
        r
        for r in request.requirements
        if r not in family and canonicalize_name(r.name) not in extensions
    ]
    problem = replace(
        problem,
        requirements=(*named, *family, Requirement("torch")),
        constraints=(*problem.constraints, torch_among(versions, matrix), *bounds),
        family_bounds=(),
    )
    names = (request.names | _USUAL) - extensions
    found = bounds_for(names, situation, request, matrix)
    prepared = PreparedBuild(first, situation, problem).with_bounds(found, names)
    return replace(prepared, against=found.against)


def with_first(prepared: PreparedBuild, names: Iterable[str]) -> PreparedBuild:
    """The same with packages that come along anyway asked for at once: decided before torch."""
    problem = prepared.problem
    asked = (*problem.requirements[:-1], *map(Requirement, names), problem.requirements[-1])
    return replace(prepared, problem=replace(problem, requirements=asked))


def with_extensions_of(opened: PreparedBuild, other: PreparedBuild) -> PreparedBuild:
    """The same with the prebuilt wheels, or the sources, that one of the builds takes."""
    names = {canonicalize_name(r.name) for r in opened.problem.requirements}
    further = (r for r in other.problem.requirements if canonicalize_name(r.name) not in names)
    problem = replace(
        opened.problem,
        requirements=(*further, *opened.problem.requirements),
        known_metadata=other.problem.known_metadata,
    )
    return replace(opened, problem=problem)


def extension_names(request: LockRequest, matrix: Matrix) -> frozenset[NormalizedName]:
    """Packages of a request that have prebuilt wheels for one torch each."""
    tables = ((name, matrix.packages(name)) for name in request.names & matrix.package_names)
    return frozenset(
        canonicalize_name(name)
        for name, table in tables
        if table is not None and "wheel_url" in table.document.data
    )


def _with_extension(
    prepared: PreparedBuild,
    wheels: WheelMatrix,
    request: LockRequest,
    matrix: Matrix,
    releases: Releases,
) -> PreparedBuild:
    """The same with the prebuilt wheel of an extension, with its source, or with a no."""
    from envguard.lock.prebuilt import NoWheel, find_wheel

    build, situation = prepared.build, prepared.situation
    stated = request.bounds_on(canonicalize_name(wheels.name))
    found = find_wheel(wheels, stated, build, request.target, situation, releases)
    if not isinstance(found, NoWheel):
        return _with_wheel(prepared, wheels.name, found.requirement)
    reason = found.reason
    if request.allow_build and found.can_be_built:
        refusal = _refused_by_headers(wheels.name, situation, request, matrix)
        if not refusal or _is_pinned(request.torch):
            return _with_source(prepared, wheels, refusal)
        reason = f"{reason}, and building it fails: {refusal}"
    against = "; ".join(filter(None, (prepared.against, reason)))
    missing = (*prepared.missing, (wheels.name, found.can_be_built))
    return replace(prepared, missing=missing, against=against)


def _with_wheel(prepared: PreparedBuild, name: str, wheel: Requirement) -> PreparedBuild:
    problem = prepared.problem
    asked = (wheel if canonicalize_name(r.name) == name else r for r in problem.requirements)
    # The address decides; a tag may hold a wheel of another version than its own.
    bounds = (r for r in problem.constraints if canonicalize_name(r.name) != name)
    problem = replace(problem, requirements=tuple(dict.fromkeys(asked)), constraints=tuple(bounds))
    return replace(prepared, problem=problem, wheels=(*prepared.wheels, wheel))


def _with_source(prepared: PreparedBuild, wheels: WheelMatrix, refusal: str) -> PreparedBuild:
    builds = tuple(wheels.source_builds())
    metadata = ((Requirement(f"{wheels.name}{b.versions}"), b.requires) for b in builds)
    tools = builds[0].tools if builds else "a CUDA toolkit and a C++ compiler"
    note = say(
        "{package} is built from source on the machine: it takes {tools}; install torch "
        "first, then the rest with --no-build-isolation",
        package=wheels.name,
        tools=tools,
    )
    warning = (
        (say("building {package} may fail: {reason}", package=wheels.name, reason=refusal),)
        if refusal
        else ()
    )
    problem = prepared.problem
    known = (*problem.known_metadata, *metadata)
    return replace(
        prepared,
        problem=replace(problem, known_metadata=known),
        from_source=(*prepared.from_source, wheels.name),
        notes=(*prepared.notes, note, *warning),
    )


def _refused_by_headers(
    name: str, situation: BuildTarget, request: LockRequest, matrix: Matrix
) -> str:
    """Why torch's headers refuse to compile every release within the user's bounds."""
    table = matrix.packages(name)
    stated = request.bounds_on(canonicalize_name(name))
    releases = [r.version for r in table.releases if admits(stated, r.version)] if table else []
    for row in matrix.breaks.about({"torch", name}):
        bound = row.any_of.get(name) if row.scope is BreakScope.EXTENSION_BUILD else None
        if bound is None or bounds_hold(row.when, situation.versions) is not True:
            continue
        if releases and all(admits(bound, version) for version in releases):
            return row.title
    return ""


def _is_pinned(stated: SpecifierSet) -> bool:
    return any(clause.operator == "==" for clause in stated)


def make_problem(build: TorchBuildRow, request: LockRequest, matrix: Matrix) -> Problem:
    """The resolution of a request with one torch build."""
    indexes = request.indexes
    return Problem(
        requirements=(*request.requirements, Requirement(f"torch=={build.label}")),
        constraints=request.constraints,
        family_bounds=companion_constraints(
            build, request, matrix, with_label=not indexes.has_backend
        ),
        torch_index=indexes.torch_url(build.backend),
        target=request.target,
        family=torch_family(matrix),
        companions=expected_companions(build, matrix),
        is_flat=indexes.is_flat,
        default_index=indexes.default,
        exclude_newer=request.exclude_newer,
        is_offline=request.is_offline,
        preferred=request.preferred,
        from_index=request.from_index,
        options=request.uv_options,
    )
