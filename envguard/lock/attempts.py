"""Tries torch builds one after the other, and learns from each failure which to pass over."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envguard.backend import Candidate, Rejected
from envguard.errors import EnvguardError, NetworkError, NoBuildError, ToolError
from envguard.lock.companions import (
    companion_constraints,
    expected_companions,
    released_with,
    torch_family,
)
from envguard.lock.failures import UnsolvableError, refusal_error
from envguard.lock.index import is_same_index, strip_credentials
from envguard.lock.pins import Pin
from envguard.lock.resolve import Problem, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.specifiers import SpecifierSet

    from envguard.lock.request import LockRequest
    from envguard.lock.runner import Uv
    from envguard.matrix.loader import Matrix
    from envguard.matrix.rows import TorchBuildRow

MAX_TRIES = 8
TORCH = canonicalize_name("torch")
_SHOWN_REASONS = 3


@dataclass(frozen=True, slots=True)
class Resolved:
    """The first build that resolves.

    Args:
        candidate: The build.
        pins: All packages by name.
        failed: The better builds that did not, each with the reason.
    """

    candidate: Candidate
    pins: tuple[Pin, ...]
    failed: tuple[Rejected, ...]


def first_that_resolves(
    candidates: Iterable[Candidate],
    request: LockRequest,
    matrix: Matrix,
    uv: Uv,
    timeout_s: float,
) -> Resolved:
    """Resolve the request with one build after the other.

    Args:
        candidates: Best first.
        request: What is asked.
        matrix: The tables.
        uv: The resolver.
        timeout_s: Limit for each run of uv.

    Raises:
        NoBuildError: None resolves, or the reason has nothing to do with torch.
        NetworkError: An index cannot be read.
        ToolError: uv failed.
    """
    failed: list[Rejected] = []
    attempts: list[_Attempt] = []
    for candidate in candidates:
        problem = make_problem(candidate.build, request, matrix)
        if reason := _ruled_out(candidate.build, problem, attempts, matrix):
            failed.append(Rejected(candidate.build, (reason,)))
            continue
        if sum(attempt.is_conflict for attempt in attempts) == MAX_TRIES:
            break
        try:
            pins = _resolve_either_way(problem, request, uv, timeout_s)
        except UnsolvableError as err:
            attempts.append(_Attempt(problem, _checked(err, problem)))
            failed.append(Rejected(candidate.build, (attempts[-1].reason,)))
        else:
            check_labels(pins, candidate.build)
            return Resolved(candidate, pins, tuple(failed))
    raise _nothing_resolves(failed, attempts)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A build that did not resolve."""

    problem: Problem
    error: UnsolvableError

    @property
    def is_conflict(self) -> bool:
        """Other packages stand against it; the alternative is that the index lacks it."""
        return TORCH not in self.error.unknown | self.error.lacking

    @property
    def reason(self) -> str:
        if TORCH in self.error.unknown:
            return f"{strip_credentials(self.problem.torch_index)} has no torch"
        if TORCH in self.error.lacking:
            return f"{strip_credentials(self.problem.torch_index)} does not have it"
        return self.error.reason

    @property
    def foreign_bounds(self) -> dict[str, list[SpecifierSet]]:
        """What packages of the request ask of torch and its companions."""
        own = {(r.name, r.specifier) for r in self.problem.family_bounds}
        found: dict[str, list[SpecifierSet]] = {}
        for name, bounds in self.error.bounds:
            if (name, bounds) not in own:
                found.setdefault(name, []).append(bounds)
        return found


def _checked(err: UnsolvableError, problem: Problem) -> UnsolvableError:
    """The error, if another torch build could make a difference.

    Raises:
        UnsolvableError: It could not.
        NetworkError: The index of everything else refuses access.
    """
    if err.refused and not is_same_index(err.refused, problem.torch_index):
        raise refusal_error(err.refused) from err
    words = {word.strip("`,;:()") for word in re.split(r"[\s=<>!~+\[]+", err.reason)}
    if any(w.startswith("nvidia-") or canonicalize_name(w) in problem.family for w in words if w):
        return err
    raise err


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


def _resolve_either_way(
    problem: Problem, request: LockRequest, uv: Uv, timeout_s: float
) -> tuple[Pin, ...]:
    """Resolve; a mirror without a page for torch may be one page of links."""
    try:
        return resolve(problem, uv, timeout_s=timeout_s)
    except UnsolvableError as err:
        if not request.indexes.is_mirror or problem.is_flat or TORCH not in err.unknown:
            raise
        try:
            return resolve(replace(problem, is_flat=True), uv, timeout_s=timeout_s)
        except (UnsolvableError, NetworkError) as flat_err:
            raise err from flat_err


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
    )


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


def first_reasons(rejected: Iterable[Rejected]) -> str:
    """A few different reasons, each with its build; the nearest misses first."""
    shown: dict[str, str] = {}
    for item in sorted(rejected, key=lambda item: len(item.reasons)):
        text = "; ".join(item.reasons)
        shown.setdefault(text, f"{item.build.label} ({text})")
    return ", ".join(list(shown.values())[:_SHOWN_REASONS])


def _nothing_resolves(failed: list[Rejected], attempts: list[_Attempt]) -> EnvguardError:
    errors = [attempt.error for attempt in attempts]
    if errors and all(TORCH in err.unknown for err in errors):
        if refused := next((err.refused for err in errors if err.refused), ""):
            return refusal_error(refused)
        return NetworkError(attempts[0].reason, hint="check the address of the torch index")
    return NoBuildError(
        f"none of the {len(attempts)} builds tried can be resolved with the request: "
        f"{first_reasons(failed)}",
        hint="loosen the bounds of the packages named",
    )
