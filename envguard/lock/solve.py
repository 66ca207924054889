"""Tries torch builds, gives up wishes, cures known breaks, learns from each failure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from envguard.backend import Candidate, RejectedBuild
from envguard.errors import EnvguardError, NetworkError, ToolError
from envguard.lock.companions import released_with
from envguard.lock.complaints import NoCandidateError, UnsolvableError
from envguard.lock.constraints import MatrixBound, find_repairs
from envguard.lock.existence import absent_from_index
from envguard.lock.package_index import is_same_index
from envguard.lock.pins import Pin
from envguard.lock.prepare import PreparedBuild, make_problem, prepare_build
from envguard.lock.project import Problem
from envguard.lock.resolve import resolve
from envguard.lock.uv import Uv
from envguard.matrix.loader import Matrix
from envguard.redaction import strip_credentials
from envguard.values import dataclass
from envguard.web.failures import NO_PAGE, no_page_error, refusal_error
from envguard.web.lock_limits import LockLimits
from envguard.web.releases import Releases

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from packaging.specifiers import SpecifierSet

    from envguard.lock.request import LockRequest
    from envguard.matrix.rows import TorchBuildRow


TORCH = canonicalize_name("torch")
_MAX_REPAIRS = 4


@dataclass(frozen=True, slots=True)
class LockContext:
    """What a resolution needs besides the request.

    Args:
        matrix: The tables.
        uv: The resolver.
        releases: Where prebuilt wheels are looked for.
        limits: What the whole lock may take.
        say: Told what is being done, for people who wait.
    """

    matrix: Matrix
    uv: Uv
    releases: Releases
    limits: LockLimits
    say: Callable[[str], None]


def resolve_and_repair(
    prepared: PreparedBuild, request: LockRequest, means: LockContext
) -> tuple[tuple[Pin, ...], PreparedBuild]:
    """Resolve; where the result holds a known break, resolve again with what cures it.

    Raises:
        UnsolvableError: There is no solution, or none without the break.
    """
    for _ in range(_MAX_REPAIRS):
        pins, prepared = _resolve_with_wishes(prepared, request, means)
        names = frozenset(str(pin.name) for pin in pins)
        found = find_repairs(pins, prepared.bounded, prepared.situation, request, means.matrix)
        if found.against:
            raise UnsolvableError(f"{found.against} (beside torch {prepared.build.label})")
        prepared = prepared.with_bounds(found, names)
        if not found.items:
            return pins, prepared
        means.say(f"resolving once more with {', '.join(str(i.requirement) for i in found.items)}")
    raise ToolError("the known breaks of what uv resolves do not settle")


def _resolve_with_wishes(
    prepared: PreparedBuild, request: LockRequest, means: LockContext
) -> tuple[tuple[Pin, ...], PreparedBuild]:
    """Resolve; where there is no solution, with the other cures or without mere wishes."""
    try:
        return _resolve_either_way(prepared.problem, request, means), prepared
    except UnsolvableError as err:
        last = err
    names = {item.name for item in prepared.bounds if _is_named(item.name, last.reason)}
    cured = prepared.with_other_cures(names)
    tried = [prepared.problem]
    for changed in (cured, _modest(prepared, names), _modest(cured, names)):
        if changed.problem in tried:
            continue
        tried.append(changed.problem)
        try:
            return _resolve_either_way(changed.problem, request, means), changed
        except UnsolvableError as err:
            last = err
    raise last


def _modest(prepared: PreparedBuild, names: Container[str]) -> PreparedBuild:
    is_wish = any(not item.is_needed and item.name in names for item in prepared.bounds)
    return prepared.without_wishes() if is_wish else prepared


def _is_named(name: str, reason: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", reason) is not None


def _resolve_either_way(
    problem: Problem, request: LockRequest, means: LockContext
) -> tuple[Pin, ...]:
    """Resolve; a mirror without a page for torch may be one page of links."""
    try:
        return resolve(problem, means.uv, limits=means.limits)
    except UnsolvableError as err:
        if not request.indexes.is_mirror or problem.is_flat or TORCH not in err.unknown:
            raise
        try:
            return resolve(replace(problem, is_flat=True), means.uv, limits=means.limits)
        except (UnsolvableError, NetworkError) as flat_err:
            raise err from flat_err


def check_labels(pins: Iterable[Pin], build: TorchBuildRow) -> None:
    """Compare what was resolved with what was chosen.

    Raises:
        ToolError: torch is not the chosen build, or torchvision or torchaudio is one for
            another backend.
    """
    backend = build.backend.label
    by_name = {pin.name: pin.version for pin in pins}
    torch = by_name.get(TORCH)
    if torch is None or torch.public != str(build.version):
        raise ToolError(f"uv resolved torch {torch}, expected {build.label}")
    for name in ("torch", "torchvision", "torchaudio"):
        version = by_name.get(canonicalize_name(name))
        if version is None or version.local == backend:
            continue
        if version.local is not None or (build.has_label and name == "torch"):
            raise ToolError(f"uv resolved {name} {version}, which is no build for {backend}")


MAX_TRIES = 8
_SHOWN_REASONS = 3


@dataclass(frozen=True, slots=True)
class ResolvedBuild:
    """The first build that resolves.

    Args:
        candidate: The build.
        pins: All packages by name.
        failed: The better builds that did not, each with the reason.
        bounds: What the matrix added and the pins are subject to.
        notes: Remarks for the reader.
    """

    candidate: Candidate
    pins: tuple[Pin, ...]
    failed: tuple[RejectedBuild, ...]
    bounds: tuple[MatrixBound, ...] = ()
    notes: tuple[str, ...] = ()


def first_that_resolves(
    candidates: Iterable[Candidate], request: LockRequest, means: LockContext
) -> ResolvedBuild:
    """Resolve the request with one build after the other.

    Args:
        candidates: Best first.
        request: What is asked.
        means: What it takes.

    Raises:
        NoCandidateError: None resolves; it holds the reasons.
        NoBuildError: The reason has nothing to do with torch.
        NetworkError: An index cannot be read.
        ToolError: uv failed.
    """
    failed: list[RejectedBuild] = []
    attempts: list[_Attempt] = []
    lacking: list[PreparedBuild] = []
    for candidate in candidates:
        build = candidate.build
        problem = make_problem(build, request, means.matrix)
        if reason := _ruled_out(build, problem, attempts, means.matrix):
            failed.append(RejectedBuild(build, (reason,)))
            continue
        if sum(attempt.is_conflict for attempt in attempts) == MAX_TRIES:
            break
        means.say(f"trying torch {build.label}")
        # For a build whose publication is established, the resolver's own reading of the page
        # is the proof; asking before would be asking twice.
        web = means.releases.web
        if not build.is_verified and (reason := absent_from_index(build, request, web)):
            failed.append(RejectedBuild(build, (reason,)))
            continue
        prepared = prepare_build(build, request, means.matrix, means.releases)
        if prepared.against:
            failed.append(RejectedBuild(build, (prepared.against,)))
            lacking.extend([prepared] if prepared.missing else [])
            continue
        if reason := _bounded_alike(prepared, attempts):
            failed.append(RejectedBuild(build, (reason,)))
            continue
        try:
            pins, prepared = resolve_and_repair(prepared, request, means)
        except UnsolvableError as err:
            attempts.append(_attempt(err, prepared))
            failed.append(RejectedBuild(build, (attempts[-1].reason,)))
        else:
            check_labels(pins, build)
            return _resolved(candidate, pins, failed, prepared)
    if lacking and len(lacking) == len(failed):
        raise _no_wheel_error(lacking, failed, request, means)
    raise _nothing_resolves(failed, attempts)


def _resolved(
    candidate: Candidate,
    pins: tuple[Pin, ...],
    failed: list[RejectedBuild],
    prepared: PreparedBuild,
) -> ResolvedBuild:
    names = {str(pin.name) for pin in pins}
    bounds = (item for item in prepared.bounds if item.name in names)
    unique = {str(item.requirement): item for item in bounds}
    return ResolvedBuild(
        candidate=candidate,
        pins=pins,
        failed=tuple(failed),
        bounds=tuple(unique[text] for text in sorted(unique)),
        notes=prepared.notes,
    )


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A build that did not resolve.

    Args:
        problem: What was resolved.
        error: Why it could not be.
        bounds: Bounds of the matrix on packages that the reason names.
    """

    problem: Problem
    error: UnsolvableError
    bounds: tuple[MatrixBound, ...] = ()

    @property
    def is_conflict(self) -> bool:
        """Other packages stand against it; the alternative is that the index lacks it."""
        return TORCH not in self.error.unknown | self.error.lacking

    @property
    def reason(self) -> str:
        if TORCH in self.error.unknown:
            return f"{strip_credentials(self.problem.torch_index)} {NO_PAGE}"
        if TORCH in self.error.lacking:
            return f"{strip_credentials(self.problem.torch_index)} does not have it"
        added = (f"{item.requirement}: {item.reason}" for item in self.bounds)
        return "; ".join((self.error.reason, *added))

    @property
    def foreign_bounds(self) -> dict[str, list[SpecifierSet]]:
        """What packages of the request ask of torch and its companions."""
        own = {(r.name, r.specifier) for r in self.problem.family_bounds}
        found: dict[str, list[SpecifierSet]] = {}
        for name, bounds in self.error.bounds:
            if (name, bounds) not in own:
                found.setdefault(name, []).append(bounds)
        return found


def _attempt(err: UnsolvableError, prepared: PreparedBuild) -> _Attempt:
    """The failure, if another torch build could make a difference.

    Raises:
        UnsolvableError: It could not.
        NetworkError: The index of everything else refuses access.
    """
    problem = prepared.problem
    if err.refused and not is_same_index(err.refused, problem.torch_index):
        raise refusal_error(err.refused) from err
    words = {word.strip("`,;:()") for word in re.split(r"[\s=<>!~+\[]+", err.reason)}
    named = {canonicalize_name(word) for word in words if word}
    bounds = tuple(item for item in prepared.bounds if item.name in named)
    # The resolver names the one that matters, unless it has merged several.
    bounds = tuple(item for item in bounds if str(item.requirement) in err.reason) or bounds
    if bounds or named & problem.family or any(word.startswith("nvidia-") for word in words):
        return _Attempt(problem, err, bounds)
    if missing := err.unknown - problem.family:
        raise no_page_error(missing, problem.default_index, err.reason) from err
    raise err


def _bounded_alike(prepared: PreparedBuild, attempts: Iterable[_Attempt]) -> str:
    """Why a build fails as an earlier one did: the same bounds of the matrix stood in the way."""
    ours = {str(item.requirement) for item in prepared.bounds}
    for attempt in attempts:
        if attempt.bounds and {str(item.requirement) for item in attempt.bounds} <= ours:
            return attempt.reason
    return ""


def _ruled_out(
    build: TorchBuildRow, problem: Problem, attempts: Iterable[_Attempt], matrix: Matrix
) -> str:
    """What an earlier failure says about this build too; empty for nothing."""
    versions = dict(released_with(matrix.torch.release(build.version)))
    versions[TORCH] = (build.version,)
    for attempt in attempts:
        if TORCH in attempt.error.unknown and attempt.problem.torch_index == problem.torch_index:
            return attempt.reason
        for name, bounds in attempt.foreign_bounds.items():
            ours = versions.get(canonicalize_name(name), ())
            if not any(b.contains(v, prereleases=True) for b in bounds for v in ours):
                wanted = " or ".join(f"{name}{b}" for b in bounds)
                return f"other packages of the request need {wanted}"
    return ""


def first_reasons(rejected: Iterable[RejectedBuild]) -> str:
    """A few different reasons, each with its build; the nearest misses first."""
    shown: dict[str, str] = {}
    for item in sorted(rejected, key=lambda item: len(item.reasons)):
        text = "; ".join(item.reasons)
        shown.setdefault(text, f"{item.build.label} ({text})")
    return ", ".join(list(shown.values())[:_SHOWN_REASONS])


def _nothing_resolves(failed: list[RejectedBuild], attempts: list[_Attempt]) -> EnvguardError:
    errors = [attempt.error for attempt in attempts]
    # A page that is refused or missing is an absent build, unless that is all there is to say.
    said = {attempt.reason for attempt in attempts}
    is_all = all(set(item.reasons) <= said for item in failed)
    if errors and is_all and all(TORCH in err.unknown for err in errors):
        if refused := next((err.refused for err in errors if err.refused), ""):
            return refusal_error(refused)
        return _no_page_of_torch(attempts[0].reason)
    if failed and all(reason.endswith(NO_PAGE) for item in failed for reason in item.reasons):
        return _no_page_of_torch(failed[0].reasons[0])
    tried = len({item.build for item in failed})
    return NoCandidateError(
        f"none of the {tried} builds that serve the machines can be resolved with the request: "
        f"{first_reasons(failed)}",
        hint="loosen the bounds of the packages named",
        failed=tuple(failed),
    )


def _no_page_of_torch(reason: str) -> NetworkError:
    return NetworkError(
        reason, hint="check the address of the torch index, and the credentials if it wants some"
    )


def _no_wheel_error(
    lacking: list[PreparedBuild],
    failed: list[RejectedBuild],
    request: LockRequest,
    means: LockContext,
) -> NoCandidateError:
    """The definite no where an extension has no prebuilt wheel, with the nearest that has one."""
    best = lacking[0]
    found = [
        (name, _nearest(name, best, request, means))
        for name, can_be_built in best.missing
        if can_be_built
    ]
    nearest = " and ".join(where for _, where in found if where)
    words = f"; the nearest is {nearest}" if nearest else ""
    names = " and ".join(name for name, _ in found)
    if not names or request.allow_build:
        hint = "loosen the bounds on torch, or leave the extension out"
    else:
        hint = f"--allow-build leaves it to the machine to build {names}"
    return NoCandidateError(f"{best.against}{words}", hint=hint, failed=tuple(failed))


def _nearest(name: str, best: PreparedBuild, request: LockRequest, means: LockContext) -> str:
    from envguard.lock.prebuilt import nearest_wheel
    from envguard.lock.prebuilt_rows import WheelMatrix

    wheels = WheelMatrix.of(means.matrix.packages(name))
    if wheels is None:
        return ""
    stated = request.bounds_on(canonicalize_name(name))
    return nearest_wheel(wheels, stated, best.build, request.target, means.releases)
