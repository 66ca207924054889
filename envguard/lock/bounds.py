"""Bounds that the matrix adds for the resolver, each with the reason that the lock names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from envguard.lock.avoid import Avoid, avoided_by_breaks, avoided_by_table
from envguard.lock.intervals import Interval, outside
from envguard.matrix.package_rows import Coverage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packaging.specifiers import SpecifierSet

    from envguard.lock.request import LockRequest
    from envguard.lock.situation import Situation
    from envguard.matrix.loader import Matrix

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
    names: Iterable[str], situation: Situation, request: LockRequest, matrix: Matrix
) -> Bounds:
    """The bounds on some packages beside a torch build.

    Args:
        names: Normalised names of the packages in question.
        situation: What is settled.
        request: Its own bounds decide which of several good stretches of releases is taken.
        matrix: The tables.
    """
    wanted = frozenset(names) - {"torch"}
    by_package: dict[str, list[Avoid]] = {}
    for avoid in avoided_by_breaks(situation, wanted, matrix):
        by_package.setdefault(avoid.package, []).append(avoid)
    for name in sorted(wanted & matrix.package_names):
        for avoid in avoided_by_table(name, situation, matrix):
            by_package.setdefault(name, []).append(avoid)
    found = [_bound_package(n, by_package[n], request, matrix) for n in sorted(by_package)]
    return Bounds(
        tuple(item for one in found for item in one.items),
        "; ".join(one.against for one in found if one.against),
        tuple(note for one in found for note in one.notes),
    )


def _bound_package(
    name: str, avoids: Sequence[Avoid], request: LockRequest, matrix: Matrix
) -> Bounds:
    stated = request.bounds_on(canonicalize_name(name))
    points = _points(name, avoids, stated, matrix)
    admitted = [p for p in points if stated.contains(p, prereleases=True)]
    needed = [avoid for avoid in avoids if avoid.is_needed]
    wishes = [avoid for avoid in avoids if not avoid.is_needed]
    rooms = _rooms(needed, admitted)
    if not rooms:
        reasons = "; ".join(_reasons(needed, admitted))
        return Bounds(against=f"the request says {name}{stated}, but {reasons}")
    better = _rooms(avoids, admitted)
    if not better:
        notes = tuple(f"{name}{stated}: {reason}" for reason in _reasons(wishes, admitted))
        return Bounds(tuple(_bounds_around(name, needed, rooms, matrix)), notes=notes)
    hard = _bounds_around(name, needed, better, matrix)
    return Bounds((*hard, *_bounds_around(name, wishes, better, matrix)))


def _rooms(avoids: Iterable[Avoid], admitted: Sequence[Version]) -> list[Interval]:
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


def _reasons(avoids: Iterable[Avoid], admitted: Sequence[Version]) -> tuple[str, ...]:
    """The reasons that concern a release within the user's bounds."""
    biting = (
        avoid.reason
        for avoid in avoids
        if any(stretch.contains(p) for stretch in avoid.versions for p in admitted)
    )
    return tuple(dict.fromkeys(biting))


def _points(
    name: str, avoids: Iterable[Avoid], stated: SpecifierSet, matrix: Matrix
) -> tuple[Version, ...]:
    """Versions that stand for all others when stretches and bounds are compared."""
    ends = {v for a in avoids for i in a.versions for v in (i.low, i.high) if v is not None}
    texts = (clause.version.removesuffix(".*") for clause in stated if clause.operator != "===")
    known = _release_versions(name, matrix) if stated else ()
    return tuple({_LOWEST, *ends, *map(Version, texts), *known})


def _bounds_around(
    name: str, avoids: Iterable[Avoid], rooms: Sequence[Interval], matrix: Matrix
) -> Iterator[MatrixBound]:
    """The reasons that bound the rooms most tightly at both ends, and what lies between rooms.

    Where not every release is known, what lies between cannot be left out one by one: then only
    the newest room is taken.
    """
    between = _release_versions(name, matrix) if len(rooms) > 1 else ()
    oldest, newest = (rooms[-1] if between else rooms[0]), rooms[0]
    hull = Interval(oldest.low, newest.high, oldest.has_low, newest.has_high)
    lower: tuple[Version, Avoid] | None = None
    upper: tuple[Version, Avoid] | None = None
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


def _edge(end: tuple[Version, Avoid], *, is_lower: bool) -> str:
    version, avoid = end
    if is_lower:
        touching = any(bad.high == version and bad.has_high for bad in avoid.versions)
        return f"{'>' if touching else '>='}{version}"
    touching = any(bad.low == version and bad.has_low for bad in avoid.versions)
    return f"{'<' if touching else '<='}{version}"


def _bound(name: str, text: str, avoid: Avoid) -> MatrixBound:
    return MatrixBound(Requirement(f"{name}{text}"), avoid.reason, avoid.source, avoid.is_needed)
