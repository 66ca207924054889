"""No pattern, of the tables or of the code, can be made to work for long by any text.

What is measured is processor time, on a scale of this machine, so that other work does not matter.
"""

from __future__ import annotations

import re

import pytest

from envguard.matrix.loader import Matrix
from envguard.matrix.pattern_cost import (
    LIMIT_S_PER_MB,
    LINE,
    TablePattern,
    measure,
    patterns_of,
    slowness,
    try_patterns,
)
from tests.patterns import patterns_of_the_code

OF_TABLES = tuple(patterns_of(Matrix.load()))
# The attack itself holds one on purpose, which tells how fast the machine is.
_SLOW_ON_PURPOSE = "envguard.matrix.pattern_cost:"
OF_CODE = tuple(
    found for found in patterns_of_the_code() if not found.place.startswith(_SLOW_ON_PURPOSE)
)
_PARTS = 8


@pytest.mark.parametrize("part", range(_PARTS))
def test_no_pattern_of_the_tables_can_be_made_to_work_long(part: int) -> None:
    limit = LIMIT_S_PER_MB * slowness()
    costs = {
        item.place: measure(re.compile(item.regex), item.literals, limit=limit)
        for item in OF_TABLES[part::_PARTS]
    }
    assert len(costs) > 40
    too_much = {place: cost for place, cost in costs.items() if cost.seconds_per_mb > limit}
    assert too_much == {}


@pytest.mark.parametrize("part", range(_PARTS))
def test_no_pattern_of_the_code_can_be_made_to_work_long(part: int) -> None:
    limit = LIMIT_S_PER_MB * slowness()
    costs = {
        item.place: measure(item.pattern, use=item.use, limit=limit, lengths=(LINE,))
        for item in OF_CODE[part::_PARTS]
    }
    assert len(costs) > 20
    too_much = {place: cost for place, cost in costs.items() if cost.seconds_per_mb > limit}
    assert too_much == {}


# Each kind of pattern that takes long on some text, and one that does not beside it.
@pytest.mark.parametrize(
    ("slow", "quick"),
    [
        (r"(?:a+)+!", r"(?:a+)!"),
        (r"(?:\s-{1,2}[\w-]{1,20})*\storch", r"(?:\s-{1,2}\w[\w-]{0,19}){0,20}\storch"),
        (r"[\w./+-]{1,300}\.so[\w.]{0,40}\(", r"(?<![\w./+-])(?>[\w./+-]{1,300}\.so)\("),
        (r"(?i)(?:unset|clear)[^.]{0,90}(?:LD)?[^.]{0,90}\bworks", r"unset[^.]{0,90}\bworks"),
        (r"NVRM.*NVRM.*NVRM.*!", r"NVRM[^!]{0,60}!"),
        (r"(a|b|ab)*c", r"[ab]{0,9}c"),
        (r"^(\w+\s?)*$", r"^[\w ]*$"),
    ],
)
def test_the_attack_tells_slow_patterns_from_quick_ones(slow: str, quick: str) -> None:
    assert measure(re.compile(slow)).seconds_per_mb > LIMIT_S_PER_MB
    assert measure(re.compile(quick)).seconds_per_mb < LIMIT_S_PER_MB * slowness()


def test_patterns_of_bytes_and_other_uses_are_attacked_too() -> None:
    assert measure(re.compile(rb"(?:a|aa)+!"), use="fullmatch").seconds_per_mb > LIMIT_S_PER_MB
    assert measure(re.compile(r"a+!"), use="match").seconds_per_mb < LIMIT_S_PER_MB * slowness()


def test_a_trial_names_the_pattern_its_place_and_its_cost() -> None:
    patterns = (
        TablePattern("x.toml: a[0].regex (good)", "fine", ("fine",)),
        TablePattern("x.toml: a[1].regex (bad)", "x(?:a+)+!", ("x",)),
    )
    (problem,) = try_patterns(patterns)
    assert problem.startswith("x.toml: a[1].regex (bad): 'x(?:a+)+!' takes ")
    assert "the limit is " in problem


def test_a_pattern_that_is_none_is_named_as_one_and_the_others_are_tried() -> None:
    patterns = (
        TablePattern("x.toml: a[0].regex (open)", "(open", ("open",)),
        TablePattern("x.toml: a[1].regex (huge)", "a{99999999999999999999}", ("a",)),
        TablePattern("x.toml: a[2].regex (bad)", "x(?:a+)+!", ("x",)),
    )
    opened, huge, bad = try_patterns(patterns)
    assert opened.startswith("x.toml: a[0].regex (open): '(open' is not a pattern: missing )")
    assert " is not a pattern: " in huge
    assert bad.startswith("x.toml: a[2].regex (bad): 'x(?:a+)+!' takes ")


def test_a_pattern_that_does_not_end_does_not_hold_up_the_tester() -> None:
    endless = TablePattern("x.toml: a[0].regex (endless)", "x" * 40, ())
    (problem,) = try_patterns((endless,), total_s=0.001)
    assert (
        problem
        == f"x.toml: a[0].regex (endless): {endless.regex!r} did not come to an end in a trial"
    )


def test_the_code_holds_patterns_that_are_found() -> None:
    assert len(OF_CODE) > 200
    places = {found.place for found in OF_CODE}
    assert {"envguard.wrappers._PREFIX"} <= places
