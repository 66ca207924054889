"""Stretches of versions: from specifiers, their union, and what lies outside of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from packaging.specifiers import Specifier


@dataclass(frozen=True, slots=True)
class Interval:
    """Every version between two ends.

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
    lower = max(one, other, key=cmp_to_key(_compare_lows))
    upper = one if _compare_highs(one, other) <= 0 else other
    return Interval(lower.low, upper.high, lower.has_low, upper.has_high)


def _compare_lows(one: Interval, other: Interval) -> int:
    if one.low is None or other.low is None:
        return (one.low is not None) - (other.low is not None)
    if one.low != other.low:
        return 1 if one.low > other.low else -1
    return int(other.has_low) - int(one.has_low)


def _compare_highs(one: Interval, other: Interval) -> int:
    if one.high is None or other.high is None:
        return (one.high is None) - (other.high is None)
    if one.high != other.high:
        return 1 if one.high > other.high else -1
    return int(one.has_high) - int(other.has_high)


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
    for one in sorted(intervals, key=cmp_to_key(_compare_lows)):
        if one.low is not None:
            below = _meet(rest, Interval(high=one.low, has_high=not one.has_low))
            if not below.is_empty:
                found.append(below)
        if one.high is None:
            return found[::-1]
        rest = _meet(rest, Interval(low=one.high, has_low=not one.has_high))
    return [rest, *found[::-1]]
