"""Damaged input of every accepted form gives facts or one clear error, never a traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envguard.errors import InputError
from envguard.facts.codec import to_dict
from envguard.ingest.detect import load_text
from envguard.ingest.lock_entry import LockfileTarget
from envguard.ingest.lockfile import load_lockfile
from tests.ingest.samples import LOCKS, REPORTS, report

if TYPE_CHECKING:
    from pathlib import Path

MUTATED = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
WORDS = (
    "\n",
    " ",
    ":",
    "|",
    "=",
    "==",
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    "\\",
    "<",
    ">",
    "&",
    "#",
    "-",
    "\x00",
    "\x1b[",
    "99999999999999999999",
    "None",
    "N/A",
    "é",
    "\uff11",
    "GPU 0: ",
    "[[package]]",
    "torch",
)
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(WORDS)), min_size=1, max_size=6
)


def mutate(text: str, edits: list[tuple[float, int, str]], cut: float) -> str:
    for place, length, word in edits:
        at = int(place * len(text))
        text = text[:at] + word + text[at + length :]
    return text[: int(cut * len(text))]


def check_report(text: str) -> None:
    try:
        facts = load_text(text, "mutated.txt")
    except InputError as err:
        said = err.message
    else:
        said = "mutated.txt" if to_dict(facts)["gaps"] is not None else "nothing"
    assert said.startswith("mutated.txt")


def outcome(name: str, text: str) -> str:
    """The name that a loaded lock keeps, or the message of the error."""
    try:
        found = load_lockfile(name, text, target=LockfileTarget())
    except InputError as err:
        return err.message
    return str(to_dict(found.environment)["document"])


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.name)
def test_damaged_reports(path: Path) -> None:
    original = report(path.name)

    @MUTATED
    @given(EDITS, st.floats(0, 1))
    def run(edits: list[tuple[float, int, str]], cut: float) -> None:
        check_report(mutate(original, edits, cut))

    run()


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_damaged_lockfiles(path: Path) -> None:
    original = path.read_text()

    @MUTATED
    @given(EDITS, st.floats(0.2, 1))
    def run(edits: list[tuple[float, int, str]], cut: float) -> None:
        text = mutate(original, edits, cut)
        assert outcome(path.name, text).startswith(path.name)

    run()


@settings(MUTATED, max_examples=100)
@given(st.text(max_size=400))
def test_any_text_at_all(text: str) -> None:
    check_report(text)


@settings(MUTATED, max_examples=100)
@given(st.text(max_size=300), st.sampled_from(["uv.lock", "x.toml", "r.txt", "pylock.toml"]))
def test_any_text_as_a_lockfile(text: str, name: str) -> None:
    assert outcome(name, text).startswith(name)
