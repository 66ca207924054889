"""Pins as words: what is no exact pin, what is pinned twice."""

from __future__ import annotations

import pytest

from envguard.errors import InputError
from envguard.ingest.stated_pins import add_pins


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["torch==2.7.1", "Torch==2.6.0"], "torch is pinned twice: 'torch==2.7.1' and "),
        (["torch==2.7.1; sys_platform == 'win32'"], "has a marker"),
        (["torch==2.7.*"], "is not an exact pin"),
        (["torch"], "is not an exact pin"),
        ([""], "'' is not a requirement"),
    ],
)
def test_words_that_are_no_pins(words: list[str], said: str) -> None:
    with pytest.raises(InputError) as caught:
        add_pins(None, words)
    assert said in caught.value.message
