from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envguard.signatures import NOISE, build_search, keys_of
from tests.crash.logs import MATRIX

ROWS = [(row.id, row.pattern, row.literals) for row in MATRIX.causes.signatures]
ROWS += [(row.id, re.compile(row.regex), row.literals) for row in MATRIX.signals.phases]


@pytest.mark.parametrize(("name", "pattern", "literals"), ROWS, ids=[row[0] for row in ROWS])
def test_whatever_a_pattern_matches_holds_one_of_its_literals(
    name: str, pattern: re.Pattern[str], literals: tuple[str, ...]
) -> None:
    if pattern.flags & re.IGNORECASE or "(?i:" in pattern.pattern:
        pytest.skip("people write either case; the literals cover the usual spellings")

    @given(st.from_regex(pattern))
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    def check(text: str) -> None:
        assert any(literal in text for literal in literals)

    check()


@pytest.mark.parametrize(("name", "pattern", "literals"), ROWS, ids=[row[0] for row in ROWS])
def test_literals_do_not_rest_on_what_keys_leave_out(
    name: str, pattern: re.Pattern[str], literals: tuple[str, ...]
) -> None:
    assert literals
    assert all(len(text.encode().translate(None, NOISE)) >= 2 for text in literals)


def test_the_search_finds_each_text_and_the_shortest_first() -> None:
    search = build_search([b"error", b"errors found", b"killed", b"kill"])
    assert search is not None
    assert [m.group() for m in search.finditer(b"errors found; killed")] == [b"error", b"kill"]
    assert build_search([]) is None


@given(st.lists(st.binary(min_size=1, max_size=6), min_size=1, max_size=20), st.binary())
def test_the_search_agrees_with_a_plain_one(texts: list[bytes], data: bytes) -> None:
    search = build_search(texts)
    assert search is not None
    found = search.search(data)
    places = [data.find(text) for text in texts if text in data]
    assert (found.start() if found else None) == (min(places) if places else None)


def test_lines_that_differ_in_figures_and_bars_share_a_key() -> None:
    one, two = keys_of(b" 12%|##   | 12/100 [0.5it/s]\n 13%|###  | 13/100 [0.51it/s]")
    assert one == two


def test_keys_have_as_many_lines_as_the_block() -> None:
    assert len(keys_of(b"a\n\n12\nb")) == 4
