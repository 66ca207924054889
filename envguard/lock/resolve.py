"""Resolves requirements with uv so that the torch family comes from one index, the rest not."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from envguard.errors import NetworkError, ToolError
from envguard.lock.failures import PROJECT, UnsolvableError
from envguard.lock.index import CUDA_FREE, is_same_index
from envguard.lock.pins import Listed, Pin, parse_listing, parse_uv_pylock
from envguard.lock.request import Target
from envguard.lock.runner import Uv, run_uv, with_default_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TIMEOUT_S = 900.0
_MAX_PASSES = 5
_TORCH_INDEX = "envguard-torch"


@dataclass(frozen=True, slots=True)
class Problem:
    """One resolution.

    Args:
        requirements: With torch pinned.
        constraints: Bounds on whatever comes along.
        family_bounds: Bounds on members of the torch family, as the torch index has them.
        companions: Members of the torch family expected to come along; they are taken from
            the torch index at once, which saves a pass.
        torch_index: Address of the index of the torch family.
        family: Names of the torch family.
        is_flat: That index is one page of links.
        default_index: Everything else; None for what uv is configured to use.
        target: Platform and Python.
        exclude_newer: Upload time from which on packages do not exist.
        is_offline: Only what uv has in its cache.
    """

    requirements: tuple[Requirement, ...]
    torch_index: str
    target: Target
    family: frozenset[NormalizedName]
    constraints: tuple[Requirement, ...] = ()
    family_bounds: tuple[Requirement, ...] = ()
    companions: frozenset[NormalizedName] = frozenset()
    is_flat: bool = False
    default_index: str | None = None
    exclude_newer: str | None = None
    is_offline: bool = False


@dataclass(frozen=True, slots=True)
class _Routing:
    """Which family members are taken from the torch index, and which need not be."""

    added: frozenset[NormalizedName]
    given_up: frozenset[NormalizedName] = frozenset()


def resolve(problem: Problem, uv: Uv, *, timeout_s: float = TIMEOUT_S) -> tuple[Pin, ...]:
    """Resolve a problem to pins.

    A source of uv routes only what the project itself asks for, so members of the family that
    others bring along (triton by torch, torchvision by timm) are found in a first listing and
    asked for in the next. uv's cache makes the further passes cheap.

    Args:
        problem: What to resolve.
        uv: The program.
        timeout_s: Limit for each run of uv.

    Returns:
        The pins by name.

    Raises:
        UnsolvableError: There is no solution.
        NetworkError: An index cannot be read, or gives no hashes.
        ToolError: uv failed, or did not do what it was told.
    """
    with tempfile.TemporaryDirectory(prefix="envguard-lock-") as name:
        folder = Path(name)
        listing, routing = _route(problem, uv, folder, timeout_s)
        _check_origins(listing, problem, routing)
        return _read_files(listing, problem, routing, uv, folder, timeout_s)


def _read_files(
    listing: tuple[Listed, ...],
    problem: Problem,
    routing: _Routing,
    uv: Uv,
    folder: Path,
    timeout_s: float,
) -> tuple[Pin, ...]:
    """Resolve once more for addresses and hashes, which the listing does not hold.

    From uv's cache if that gives the same answer, so that no index is asked twice.
    """
    indexes = {found.name: found.index_url for found in listing}
    listed = {(found.name, found.version) for found in listing}
    for attempt in (replace(problem, is_offline=True), problem):
        try:
            text = _compile(attempt, uv, routing, folder, "pylock.toml", timeout_s)
        except (NetworkError, UnsolvableError):
            if attempt is problem:
                raise
            continue
        pins = parse_uv_pylock(text, indexes)
        if listed == {(pin.name, pin.version) for pin in pins}:
            return pins
    raise NetworkError("an index changed while it was read", hint="run it again")


def _route(
    problem: Problem, uv: Uv, folder: Path, timeout_s: float
) -> tuple[tuple[Listed, ...], _Routing]:
    routing = _Routing(problem.companions)
    for _ in range(_MAX_PASSES):
        try:
            text = _compile(problem, uv, routing, folder, "requirements.txt", timeout_s)
        except UnsolvableError as err:
            lacking = _routed(problem, routing) & CUDA_FREE & (err.unknown | err.lacking)
            if not lacking:
                raise
            routing = _Routing(routing.added - lacking, routing.given_up | lacking)
            continue
        listing = parse_listing(text)
        adjusted = _adjust(routing, listing, problem)
        if adjusted == routing:
            return listing, routing
        routing = adjusted
    raise ToolError("uv's answers about the torch family do not settle")


def _adjust(routing: _Routing, listing: tuple[Listed, ...], problem: Problem) -> _Routing:
    """Ask for the members that strayed; stop asking for those that nothing else needs."""
    asked = _asked_for(problem)
    idle = {
        found.name
        for found in listing
        if found.name in routing.added and found.name not in asked and found.parents <= {PROJECT}
    }
    stray = {
        found.name
        for found in listing
        if found.name in problem.family and found.name not in asked | routing.given_up
    }
    return replace(routing, added=frozenset(stray - idle))


def _asked_for(problem: Problem) -> frozenset[NormalizedName]:
    variables = problem.target.marker_variables
    return frozenset(
        canonicalize_name(r.name)
        for r in problem.requirements
        if r.marker is None or r.marker.evaluate(variables)
    )


def _routed(problem: Problem, routing: _Routing) -> frozenset[NormalizedName]:
    return (problem.family & _asked_for(problem) | routing.added) - routing.given_up


def _check_origins(listing: Iterable[Listed], problem: Problem, routing: _Routing) -> None:
    """Compare where uv took each package from with where it had to.

    Raises:
        ToolError: A package comes from the wrong index.
    """
    is_one = problem.default_index is not None and is_same_index(
        problem.default_index, problem.torch_index
    )
    for found in listing:
        must = found.name in problem.family and found.name not in routing.given_up
        if must != is_same_index(found.index_url, problem.torch_index) and (must or not is_one):
            place = found.index_url or "an unnamed place"
            raise ToolError(
                f"{found.name} {found.version} comes from {place}, expected "
                f"{'the torch index' if must else 'another index than torch'}",
                hint="a setting of uv may override this: see no-sources and index in uv.toml",
            )


def _compile(
    problem: Problem, uv: Uv, routing: _Routing, folder: Path, form: str, timeout_s: float
) -> str:
    """Run ``uv pip compile`` once and return what it wrote."""
    import tomli_w

    project = tomli_w.dumps(_project(problem, routing))
    (folder / "pyproject.toml").write_text(project, encoding="utf-8")
    output = folder / form
    output.unlink(missing_ok=True)
    if problem.default_index is not None:
        uv = replace(uv, variables=with_default_index(uv.variables, problem.default_index))
    routed = sorted(_routed(problem, routing))
    bounds = [r for r in problem.family_bounds if canonicalize_name(r.name) in routed]
    lines = "".join(f"{constraint}\n" for constraint in (*problem.constraints, *bounds))
    (folder / "constraints.txt").write_text(lines, encoding="utf-8")
    arguments = _arguments(problem, form, routed)
    ended = run_uv(uv, arguments, folder=folder, timeout_s=timeout_s)
    if ended.returncode != 0 or ended.talk:
        from envguard.lock.complaints import check_config_was_read, explain_failure

        if ended.returncode != 0:
            raise explain_failure(ended)
        check_config_was_read(ended)
    try:
        return output.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise ToolError(f"uv wrote no {form} that can be read: {err}") from err


def _arguments(problem: Problem, form: str, routed: Iterable[NormalizedName]) -> list[str]:
    """What decides the answer stands here, not in the project: UV_NO_CONFIG would hide it."""
    target = problem.target
    hashes = ["--generate-hashes"] if form == "pylock.toml" else ["--emit-index-annotation"]
    return [
        *("pip", "compile", "pyproject.toml", "--output-file", form, "--format", form),
        *("--quiet", "--color", "never", "--no-progress", "--no-header", *hashes),
        *("--annotation-style", "split"),
        *("--python", sys.executable, "--python-version", str(target.python)),
        *("--python-platform", target.uv_platform),
        *("--constraints", "constraints.txt"),
        *(["--offline"] if problem.is_offline else []),
        *_cutoff(problem.exclude_newer, routed),
    ]


def _cutoff(date: str | None, routed: Iterable[NormalizedName]) -> Iterable[str]:
    """The PyTorch index gives no upload times; the chosen build's release date was compared."""
    if date is not None:
        yield from ("--exclude-newer", date)
        for name in routed:
            yield from ("--exclude-newer-package", f"{name}=false")


def _project(problem: Problem, routing: _Routing) -> dict[str, Any]:
    """The project file: nothing of the user's own project can come in between."""
    routed = sorted(_routed(problem, routing))
    settings: dict[str, Any] = {
        "workspace": {"members": []},
        # What a user's uv.toml says beyond indexes must not change the answer.
        "no-sources": False,
        "pip": {"no-sources": False, "resolution": "highest", "index-strategy": "first-index"},
        "index": [_torch_index(problem)],
        "sources": {name: {"index": _TORCH_INDEX} for name in routed},
    }
    return {
        "project": {
            "name": PROJECT,
            "version": "0",
            "requires-python": f">={problem.target.python}",
            "dependencies": [*map(str, problem.requirements), *sorted(routing.added)],
        },
        "tool": {"uv": settings},
    }


def _torch_index(problem: Problem) -> Mapping[str, Any]:
    return {
        "name": _TORCH_INDEX,
        "url": problem.torch_index,
        "explicit": True,
        "format": "flat" if problem.is_flat else "simple",
        # One answer for all passes, whatever the server says about caching.
        "cache-control": {"api": "max-age=600"},
    }
