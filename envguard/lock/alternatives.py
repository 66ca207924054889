"""What would make possible what a lock goes without: another driver, GPU, Python or build."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.utils import NormalizedName, canonicalize_name

from envguard.conditions import admits
from envguard.facts.sentences import say
from envguard.lock.constraints import build_target_of, exclusions_of_table
from envguard.lock.newest import bounds_on
from envguard.matrix.rows import TorchBuildRow
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    from envguard.backend import Ladder, RejectedBuild
    from envguard.lock.newest import IndexReleases, ListedRelease
    from envguard.lock.request import LockRequest
    from envguard.matrix.loader import Matrix

_YEAR_DAYS = 365
_MOST_GROUPS = 6
_MOST_REASON = 320
_FEW_BUILDS = 3
_PYTHON = re.compile(r"\bPython ?((?:[<>=!~]=?\d[\d.*]*)(?:,[<>=!~]=?\d[\d.*]*)*)")


def grouped_reasons(failed: Iterable[RejectedBuild]) -> str:
    """Why builds do not serve: those with one reason together, the largest group first.

    Returns:
        A line for each group, at most a screen of them.
    """
    groups: dict[str, list[TorchBuildRow]] = {}
    for item in failed:
        groups.setdefault("; ".join(item.reasons), []).append(item.build)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    lines = [
        f"\n  {_named(builds)}: {_shortened(reason)}" for reason, builds in ordered[:_MOST_GROUPS]
    ]
    if rest := ordered[_MOST_GROUPS:]:
        count = sum(len(builds) for _, builds in rest)
        lines.append(f"\n  {count} more builds for other reasons: --explain prints all of them")
    return "".join(lines)


def _named(builds: Sequence[TorchBuildRow]) -> str:
    labels = list(dict.fromkeys(build.label for build in builds))
    if len(labels) <= _FEW_BUILDS:
        return ", ".join(labels)
    newest = max(builds, key=lambda build: build.version)
    oldest = min(builds, key=lambda build: build.version)
    return f"{len(labels)} builds, {newest.label} to {oldest.label}"


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_REASON else f"{text[: _MOST_REASON - 3]}..."


@dataclass(frozen=True, slots=True)
class _Way:
    """A build that a package takes, and what stands against it here.

    Args:
        build: The build.
        tables: What the tables say against the package beside it.
        machines: What the machines, the Python or the platform lack.
    """

    build: TorchBuildRow
    tables: tuple[str, ...]
    machines: tuple[str, ...]

    @property
    def distance(self) -> tuple[int, int]:
        return len(self.tables), len(self.machines)


def nearest_way(
    package: tuple[str, Version] | None,
    wish: SpecifierSet,
    request: LockRequest,
    ladder: Ladder,
    matrix: Matrix,
) -> str:
    """What the machines would have to have for a build that is wished for.

    Args:
        package: Name and version of what takes it; None where only torch is asked for.
        wish: Bounds on torch.
        request: For the machines.
        ladder: Every build, with the reasons against those that do not serve.
        matrix: For what the package itself needs.

    Returns:
        The build that the least stands against, with that; empty where there is none, or nothing
        stands against it.
    """
    rejected = [(item.build, item.reasons) for item in ladder.rejected]
    builds = [*((c.build, ()) for c in ladder.candidates), *rejected]
    ways = [
        _Way(build, _table_reasons(package, build, request, matrix), reasons)
        for build, reasons in builds
        if admits(wish, build.version) and build.backend.cuda is not None
    ]
    best = min(ways, key=lambda way: way.distance, default=None)
    if best is None or not (best.tables or best.machines):
        return ""
    lacks = "; ".join((*best.machines, *best.tables))
    return say("torch {build}: {lacks}", build=best.build.label, lacks=lacks)


def _table_reasons(
    package: tuple[str, Version] | None,
    build: TorchBuildRow,
    request: LockRequest,
    matrix: Matrix,
) -> tuple[str, ...]:
    if package is None:
        return ()
    name, version = package
    avoided = exclusions_of_table(name, build_target_of(build, request), matrix)
    biting = (
        avoid.reason
        for avoid in avoided
        if avoid.is_needed and any(stretch.contains(version) for stretch in avoid.versions)
    )
    return tuple(dict.fromkeys(biting))


def behind_notes(
    pins: Mapping[NormalizedName, Version],
    names: Iterable[NormalizedName],
    listed: IndexReleases,
    request: LockRequest,
    ladder: Ladder,
    matrix: Matrix,
) -> Iterator[str]:
    """One remark for each named package that is not its newest, with what would allow that one.

    Args:
        pins: What is locked.
        names: The packages that were asked for by name.
        listed: The releases that the index lists.
        request: For extras, machines and Python.
        ladder: Every build.
        matrix: The tables.
    """
    for name in names:
        version = pins.get(name)
        newest = listed.newest(str(name))
        if version is None or newest is None:
            continue
        if version.public != newest.version.public:
            yield from _behind(name, version, newest, listed, request, ladder, matrix)
        elif (other := listed.newer_python(str(name))) and _is_far(other.version, version):
            yield say(
                "{package} {version} is locked; {newest} needs Python {python}, the lock is for "
                "{target}: see --python-version",
                package=name,
                version=version.public,
                newest=other.version,
                python=other.python or "of another version",
                target=request.target.python_words,
            )


def _is_far(newest: Version, version: Version) -> bool:
    """Whether more than a correction lies between two releases."""
    return newest.release[:2] > version.release[:2]


def _behind(
    name: NormalizedName,
    version: Version,
    newest: ListedRelease,
    listed: IndexReleases,
    request: LockRequest,
    ladder: Ladder,
    matrix: Matrix,
) -> Iterator[str]:
    extras = {
        e for r in request.requirements if canonicalize_name(r.name) == name for e in r.extras
    }
    wish = bounds_on("torch", listed.requires(newest), extras, request)
    way = nearest_way((str(name), newest.version), wish, request, ladder, matrix)
    days = listed.lag_days(str(name), version) or 0
    is_far = days > _YEAR_DAYS or newest.version.major > version.major
    when = f" of {newest.uploaded}" if newest.uploaded else ""
    said = {"package": name, "version": version.public, "newest": newest.version, "when": when}
    if way:
        yield say(
            "{package} {version} is locked: the newest, {newest}{when}, takes {way}",
            **said,
            way=way,
        )
    elif is_far:
        yield say(
            "{package} {version} is locked, the newest is {newest}{when}: other packages of the "
            "request hold it back",
            **said,
        )


def python_wanted(reason: str) -> str:
    """The bounds on Python that a reason names; empty for none."""
    match = _PYTHON.search(reason)
    return match[1] if match else ""
