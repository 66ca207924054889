"""One resolution as uv is handed it: its arguments, the project and the constraints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from envguard.lock.complaints import PROJECT
from envguard.lock.request import FurtherIndex, Target
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

TORCH_INDEX = "envguard-torch"


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
        known_metadata: Requirements of packages whose source does not state them without a
            build; their version is part of the requirement.
        preferred: Pins that are kept where they serve.
        from_index: Packages that are taken from a further index, and from no other.
        options: Further options of uv.
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
    known_metadata: tuple[tuple[Requirement, tuple[str, ...]], ...] = ()
    preferred: tuple[Requirement, ...] = ()
    from_index: tuple[tuple[NormalizedName, FurtherIndex], ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Routing:
    """Which family members are taken from the torch index, and which need not be."""

    added: frozenset[NormalizedName]
    given_up: frozenset[NormalizedName] = frozenset()


def asked_for(problem: Problem) -> frozenset[NormalizedName]:
    """Names of what the problem itself asks for on its target."""
    variables = problem.target.marker_variables
    return frozenset(
        canonicalize_name(r.name)
        for r in problem.requirements
        if r.marker is None or r.marker.evaluate(variables)
    )


def routed_names(problem: Problem, routing: Routing) -> frozenset[NormalizedName]:
    """Members of the torch family that have to come from the torch index."""
    return (problem.family & asked_for(problem) | routing.added) - routing.given_up


def write_project(
    problem: Problem, routing: Routing, folder: Path, *, pinned: Iterable[Requirement] = ()
) -> None:
    """Write the project and the constraints of a resolution.

    Args:
        problem: What to resolve.
        routing: What is taken from the torch index.
        folder: Where uv runs.
        pinned: Versions that are settled already.
    """
    import tomli_w

    text = tomli_w.dumps(_project(problem, routing))
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    names = routed_names(problem, routing)
    bounds = [r for r in problem.family_bounds if canonicalize_name(r.name) in names]
    lines = "".join(f"{r}\n" for r in (*problem.constraints, *bounds, *pinned))
    (folder / "constraints.txt").write_text(lines, encoding="utf-8")


def uv_arguments(problem: Problem, routing: Routing, form: str, python: str) -> list[str]:
    """What decides the answer stands here, not in the project: UV_NO_CONFIG would hide it.

    Args:
        problem: What to resolve.
        routing: What is taken from the torch index.
        form: Name of the output file, which is also its format.
        python: Interpreter that stands for the target's kind and builds metadata.
    """
    target = problem.target
    hashes = ["--generate-hashes"] if form == "pylock.toml" else ["--emit-index-annotation"]
    return [
        *("pip", "compile", "pyproject.toml", "--output-file", form, "--format", form),
        *("--quiet", "--color", "never", "--no-progress", "--no-header", *hashes),
        *("--annotation-style", "split"),
        *("--python", python, "--python-version", str(target.python)),
        *("--python-platform", target.uv_platform),
        *("--constraints", "constraints.txt"),
        *(["--offline"] if problem.is_offline else []),
        *problem.options,
        *_cutoff(problem.exclude_newer, sorted(routed_names(problem, routing))),
    ]


def _cutoff(date: str | None, routed: Iterable[NormalizedName]) -> Iterable[str]:
    """The PyTorch index gives no upload times; the chosen build's release date was compared."""
    if date is not None:
        yield from ("--exclude-newer", date)
        for name in routed:
            yield from ("--exclude-newer-package", f"{name}=false")


def _project(problem: Problem, routing: Routing) -> dict[str, Any]:
    """The project file: nothing of the user's own project can come in between."""
    settings: dict[str, Any] = {
        "workspace": {"members": []},
        # What a user's uv.toml says beyond indexes must not change the answer.
        "no-sources": False,
        "pip": {"no-sources": False, "resolution": "highest", "index-strategy": "first-index"},
        "index": [_torch_index(problem), *_further_indexes(problem)],
        "sources": {
            **{name: {"index": _index_name(n)} for n, (name, _) in enumerate(problem.from_index)},
            **{name: {"index": TORCH_INDEX} for name in sorted(routed_names(problem, routing))},
        },
    }
    if problem.known_metadata:
        settings["dependency-metadata"] = [
            _metadata(package, requires) for package, requires in problem.known_metadata
        ]
    return {
        "project": {
            "name": PROJECT,
            "version": "0",
            "requires-python": f">={problem.target.python}",
            "dependencies": [*map(str, problem.requirements), *sorted(routing.added)],
        },
        "tool": {"uv": settings},
    }


def _index_name(number: int) -> str:
    return f"envguard-further-{number}"


def _further_indexes(problem: Problem) -> Iterable[Mapping[str, Any]]:
    """An explicit index for each package that is taken from one: no other comes in by it."""
    for number, (_, index) in enumerate(problem.from_index):
        kind = "flat" if index.is_flat else "simple"
        yield {"name": _index_name(number), "url": index.url, "explicit": True, "format": kind}


def _metadata(package: Requirement, requires: tuple[str, ...]) -> dict[str, Any]:
    table: dict[str, Any] = {"name": package.name, "requires-dist": list(requires)}
    table.update(("version", clause.version) for clause in package.specifier)
    return table


def _torch_index(problem: Problem) -> Mapping[str, Any]:
    return {
        "name": TORCH_INDEX,
        "url": problem.torch_index,
        "explicit": True,
        "format": "flat" if problem.is_flat else "simple",
        # One answer for all passes, whatever the server says about caching.
        "cache-control": {"api": "max-age=600"},
    }
