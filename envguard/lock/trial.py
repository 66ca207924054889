"""Resolves one prepared build: wishes given up where they stand in the way, known breaks cured."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from envguard.errors import NetworkError, ToolError
from envguard.lock.failures import UnsolvableError
from envguard.lock.releases import Releases
from envguard.lock.repairs import find_repairs
from envguard.lock.resolve import resolve
from envguard.lock.runner import Uv
from envguard.lock.uvprocess import Limits
from envguard.matrix.loader import Matrix

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from envguard.lock.pins import Pin
    from envguard.lock.prepare import Prepared
    from envguard.lock.project import Problem
    from envguard.lock.request import LockRequest
    from envguard.matrix.rows import TorchBuildRow

TORCH = canonicalize_name("torch")
_MAX_REPAIRS = 4


@dataclass(frozen=True, slots=True)
class Means:
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
    limits: Limits
    say: Callable[[str], None]


def resolve_and_repair(
    prepared: Prepared, request: LockRequest, means: Means
) -> tuple[tuple[Pin, ...], Prepared]:
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
    prepared: Prepared, request: LockRequest, means: Means
) -> tuple[tuple[Pin, ...], Prepared]:
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


def _modest(prepared: Prepared, names: Container[str]) -> Prepared:
    is_wish = any(not item.is_needed and item.name in names for item in prepared.bounds)
    return prepared.without_wishes() if is_wish else prepared


def _is_named(name: str, reason: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", reason) is not None


def _resolve_either_way(problem: Problem, request: LockRequest, means: Means) -> tuple[Pin, ...]:
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
