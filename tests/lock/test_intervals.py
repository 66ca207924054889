"""Stretches of versions, and what lies outside of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.lock.constraints import Interval, interval_of, outside, runs_of


def texts(intervals: list[Interval]) -> list[str]:
    return [",".join(sorted(str(interval.specifier).split(","))) for interval in intervals]


def stretch(text: str) -> Interval:
    found = interval_of(SpecifierSet(text))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("bad", "rest"),
    [
        (["<0.8.2"], [">=0.8.2"]),
        ([">=82"], ["<82"]),
        ([">=0.7.0,<0.14.1", ">=0.14.1,<0.14.4"], [">=0.14.4", "<0.7.0"]),
        (["==0.18.6"], [">0.18.6", "<0.18.6"]),
        (["==5.1.*"], [">=5.2", "<5.1"]),
        ([">=0.19,<=0.19.3"], [">0.19.3", "<0.19"]),
        (["<2", ">=1"], []),
        ([""], []),
        ([], [""]),
    ],
)
def test_what_is_outside_is_said_newest_first(bad: list[str], rest: list[str]) -> None:
    assert texts(outside(stretch(text) for text in bad)) == rest


@pytest.mark.parametrize("text", ["!=1.0", "~=1.2", "===1.0"])
def test_what_is_not_one_stretch_is_none(text: str) -> None:
    assert interval_of(SpecifierSet(text)) is None


def test_neighbouring_releases_are_one_stretch_up_to_the_next_good_one() -> None:
    known = [Version(text) for text in ("1", "2", "3", "4", "5")]
    bad = {Version("1"), Version("3"), Version("4"), Version("5")}
    assert texts(runs_of(bad, known)) == ["<2", ">=3"]
    assert texts(runs_of({Version("2"), Version("3")}, known)) == ["<4,>=2"]


BOUNDS = st.sampled_from(["<", "<=", ">", ">=", "=="])
VERSIONS = st.integers(0, 6).map(str)
STRETCHES = st.lists(st.tuples(BOUNDS, VERSIONS), min_size=1, max_size=2).map(
    lambda pairs: ",".join(f"{operator}{version}" for operator, version in pairs)
)


@given(st.lists(STRETCHES, max_size=4), st.integers(0, 6))
def test_a_version_is_in_a_stretch_or_outside_of_all(bad: list[str], number: int) -> None:
    version = Version(str(number))
    is_bad = any(SpecifierSet(text).contains(version) for text in bad)
    rooms = outside(stretch(text) for text in bad)
    assert any(room.contains(version) for room in rooms) == (not is_bad)
    assert any(room.specifier.contains(version) for room in rooms) == (not is_bad)
