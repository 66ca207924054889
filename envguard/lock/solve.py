"""Resolves with one torch build: gives up wishes, cures known breaks, learns from failure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from envguard.errors import NetworkError, ToolError
from envguard.lock.companions import released_with
from envguard.lock.complaints import UnsolvableError
from envguard.lock.constraints import MatrixBound, find_repairs
from envguard.lock.package_index import is_same_index
from envguard.lock.project import Problem
from envguard.lock.resolve import resolve
from envguard.redaction import strip_credentials
from envguard.values import dataclass
from envguard.web.failures import NO_PAGE, no_page_error, refusal_error

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from packaging.specifiers import SpecifierSet

    from envguard.lock.pins import ListedPin, Pin
    from envguard.lock.prepare import PreparedBuild
    from envguard.lock.request import LockRequest
    from envguard.lock.survey import LockContext
    from envguard.matrix.loader import Matrix
    from envguard.matrix.rows import TorchBuildRow


TORCH = canonicalize_name("torch")
_RELEASED = frozenset({"torch", "torchvision", "torchaudio"})
_MAX_REPAIRS = 4


class KnownBreakError(UnsolvableError):
    """What resolves holds a known break that nothing within the request's bounds cures.

    Args:
        against: The break.
        pins: What resolves.
        prepared: The build beside which it does.
    """

    def __init__(self, against: str, pins: tuple[Pin, ...], prepared: PreparedBuild) -> None:
        super().__init__(f"{against} (beside torch {prepared.build.label})")
        self.against = against
        self.pins = pins
        self.prepared = prepared


def resolve_and_repair(
    prepared: PreparedBuild, request: LockRequest, means: LockContext
) -> tuple[tuple[Pin, ...], PreparedBuild]:
    """Resolve; where the result holds a known break, resolve again with what cures it.

    Raises:
        KnownBreakError: What resolves has a break that no other version cures.
        UnsolvableError: There is no solution.
    """
    for _ in range(_MAX_REPAIRS):
        pins, prepared = _resolve_with_wishes(prepared, request, means)
        names = frozenset(str(pin.name) for pin in pins)
        found = find_repairs(pins, prepared.bounded, prepared.situation, request, means.matrix)
        if found.against:
            raise KnownBreakError(found.against, pins, prepared)
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
        return resolve_either_way(prepared.problem, request, means), prepared
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
            return resolve_either_way(changed.problem, request, means), changed
        except UnsolvableError as err:
            last = err
    raise last


def _modest(prepared: PreparedBuild, names: Container[str]) -> PreparedBuild:
    is_wish = any(not item.is_needed and item.name in names for item in prepared.bounds)
    return prepared.without_wishes() if is_wish else prepared


def _is_named(name: str, reason: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", reason) is not None


def resolve_either_way(
    problem: Problem,
    request: LockRequest,
    means: LockContext,
    tell: Callable[[tuple[ListedPin, ...]], None] | None = None,
) -> tuple[Pin, ...]:
    """Resolve; a mirror without a page for torch may be one page of links."""
    try:
        return resolve(problem, means.uv, limits=means.limits, tell=tell)
    except UnsolvableError as err:
        if not request.indexes.is_mirror or problem.is_flat or TORCH not in err.unknown:
            raise
        try:
            flat = replace(problem, is_flat=True)
            return resolve(flat, means.uv, limits=means.limits, tell=tell)
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


@dataclass(frozen=True, slots=True)
class Attempt:
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
        """Why, in one line."""
        if TORCH in self.error.unknown:
            return f"{strip_credentials(self.problem.torch_index)} {NO_PAGE}"
        if TORCH in self.error.lacking:
            return f"{strip_credentials(self.problem.torch_index)} does not have it"
        added = (f"{item.requirement}: {item.reason}" for item in self.bounds)
        return "; ".join((self.error.reason, *added))

    @property
    def torch_wishes(self) -> list[SpecifierSet]:
        """What packages of the request ask of torch, as far as the reason names it."""
        return self.foreign_bounds.get("torch", [])

    @property
    def foreign_bounds(self) -> dict[str, list[SpecifierSet]]:
        """What packages of the request ask of torch and its companions."""
        problem = self.problem
        ours = (*problem.family_bounds, *problem.constraints)
        own = {(r.name, r.specifier) for r in ours if r.name in _RELEASED}
        found: dict[str, list[SpecifierSet]] = {}
        for name, bounds in self.error.bounds:
            if (name, bounds) not in own:
                found.setdefault(name, []).append(bounds)
        return found


def attempt_of(err: UnsolvableError, prepared: PreparedBuild) -> Attempt:
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
        return Attempt(problem, err, bounds)
    if missing := err.unknown - problem.family:
        raise no_page_error(missing, problem.default_index, err.reason) from err
    raise err


def ruled_out(
    build: TorchBuildRow, problem: Problem, attempts: Iterable[Attempt], matrix: Matrix
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
