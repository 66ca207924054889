"""What is put round a line comes off it, and an error is found inside whatever holds it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envguard.matrix.loader import Matrix
from envguard.signatures import find_signatures
from envguard.wrappers import goes_on, unwrap

MATRIX = Matrix.load()
ERROR = "fatal error: Python.h: No such file or directory"
WRAPPERS = (
    "      {}",
    "\t{}",
    "  \u2502 {}",
    "  \u2570\u2500> {}",
    "  \u2570\u2500\u25b6 {}",
    "  \u251c\u2500\u25b6 {}",
    "  \u00d7 {}",
    "| {}",
    "  143\u2502 {}",
    "> {}",
    "[stderr] {}",
    "#12 34.51 {}",
    "#12 ERROR: {}",
    "34.51 {}",
    "Step 3/9 : {}",
    " => ERROR [build 3/9] {}",
    "trainer-1  | {}",
    "[3/14] {}",
    "[ 42%] {}",
    "3>{}",
    "##[error]{}",
    "::error file=setup.py,line=3::{}",
    "build-linux\tInstall\t2026-11-29T10:11:12.1234567Z {}",
    "2026-11-29T10:11:12.1234567Z ##[error]{}",
    "2026-11-29T10:11:12.123456Z 01E {}",
    "[2026-11-29T10:11:12.123Z] {}",
    "2026-11-29 10:11:12,123 {}",
    "[10:11:12] {}",
    "[rank3]:   \u2502 {}",
    "#12 34.51       {}",
    "2026-11-29T10:11:12.1234567Z #12 34.51   \u2502 {}",
)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_what_stands_before_a_line_comes_off(wrapper: str) -> None:
    assert unwrap(wrapper.format(ERROR)) == ERROR


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA error: out of memory",
        "/src/ops/scan.cu(118): error: identifier is undefined",
        "12.4 is the CUDA of this driver"[2:],
        "C:\\src\\a.cpp(3): error C2065: 'x': undeclared identifier",
        "-- The CUDA compiler identification is NVIDIA 12.4",
    ],
)
def test_a_bare_line_stays_as_it_is(line: str) -> None:
    assert unwrap(line) == line


_BARE = [
    (row.id, row.sample)
    for row in MATRIX.causes.signatures
    if "\n" not in row.sample
    and unwrap(row.sample) == row.sample
    and row.pattern.search(row.sample)
]


@given(st.sampled_from(_BARE), st.lists(st.sampled_from(WRAPPERS), min_size=1, max_size=3))
@settings(max_examples=250, deadline=None)
def test_what_is_found_in_a_bare_line_is_found_inside_every_wrapper(
    row: tuple[str, str], wrappers: list[str]
) -> None:
    name, text = row
    for wrapper in wrappers:
        text = wrapper.format(text)
    assert name in {hit.id for hit in find_signatures(text, MATRIX)}


def test_most_signatures_are_tried_in_wrappers() -> None:
    assert len(_BARE) > 250


def test_the_evidence_is_the_line_without_its_wrappers() -> None:
    (hit,) = (
        hit
        for hit in find_signatures(f"      \u2570\u2500> {ERROR}", MATRIX)
        if hit.id == "python-headers"
    )
    assert hit.text == ERROR


def test_a_message_that_a_terminal_broke_is_read_whole() -> None:
    text = (
        "      RuntimeError:\n"
        "      The detected CUDA version (11.5) mismatches the version that was used to compile\n"
        "      PyTorch (12.1). Please make sure to use the same CUDA versions.\n"
    )
    (hit,) = (h for h in find_signatures(text, MATRIX) if h.id == "cuda-version-mismatch")
    assert (hit.line, hit.groups["nvcc"], hit.groups["torch"]) == (2, "11.5", "12.1")


@pytest.mark.parametrize(
    ("text", "following", "is_one"),
    [
        ("No solution was found because torch has no wheels with a", "matching platform tag", True),
        ("No solution was found because torch has no wheels.", "matching platform tag", False),
        ("No solution was found because torch has no wheels with a", "", False),
        ("No solution was found because torch has no wheels with a", "error: other words", False),
        ("No solution was found because torch has no wheels with a", "ValueError: x", False),
        ("a short line", "and another", False),
    ],
)
def test_a_line_goes_on_where_it_breaks_off_in_a_sentence(
    text: str, following: str, *, is_one: bool
) -> None:
    assert goes_on(text, following) is is_one
