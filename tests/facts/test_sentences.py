"""A sentence is a str that still knows its template and its values."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace

import pytest

from envguard.facts.codec import to_dict
from envguard.facts.findings import Finding, Remedy, Status
from envguard.facts.sentences import Text, fill, join_sentences, say

TOLD = say("torch {torch} has no code for GPU {gpu}", torch="2.8.0", gpu=0)


def test_a_sentence_is_its_english_text() -> None:
    assert TOLD == "torch 2.8.0 has no code for GPU 0"
    assert {TOLD: 1} == {"torch 2.8.0 has no code for GPU 0": 1}
    assert isinstance(TOLD, str)


def test_a_sentence_keeps_its_template_and_its_values() -> None:
    assert TOLD.template == "torch {torch} has no code for GPU {gpu}"
    assert TOLD.values == {"torch": "2.8.0", "gpu": 0}


def test_a_template_may_say_how_a_value_is_written() -> None:
    assert say("{size:.1f} GiB of {what!r}, {{x}}", size=2, what="a") == "2.0 GiB of 'a', {x}"


def test_a_value_may_be_called_like_a_parameter() -> None:
    assert say("{template} and {self}", template=1, self=2) == "1 and 2"


def test_a_value_that_is_not_given_is_an_error() -> None:
    with pytest.raises(KeyError):
        say("{torch} and {gpu}", torch="2.8.0")


def test_a_sentence_is_a_plain_string_in_documents() -> None:
    finding = Finding("GPU001", "arch-missing-old-gpu", Status.FAIL, TOLD, remedy=Remedy(TOLD))
    document = json.loads(json.dumps(to_dict(finding)))
    assert document["title"] == "torch 2.8.0 has no code for GPU 0"
    assert document["remedy"]["text"] == "torch 2.8.0 has no code for GPU 0"


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_sentence_survives_pickling(protocol: int) -> None:
    # Bytes that this line itself makes of our own value: nobody else can have put code into them.
    again = pickle.loads(pickle.dumps(TOLD, protocol))  # noqa: S301 - made on this line
    assert (type(again), again) == (Text, TOLD)
    assert (again.template, again.values) == (TOLD.template, TOLD.values)


def test_a_sentence_survives_copies() -> None:
    finding = replace(Finding("A", "b", Status.OK, "x"), title=TOLD)
    for again in (copy.copy(TOLD), copy.deepcopy(TOLD), copy.deepcopy(finding).title):
        assert isinstance(again, Text)
        assert (again, again.template) == (TOLD, TOLD.template)


def test_joined_sentences_keep_their_parts() -> None:
    joined = join_sentences(TOLD, "", "Plain {words}.")
    assert joined == "torch 2.8.0 has no code for GPU 0 Plain {words}."
    assert list(joined.values.values()) == [TOLD, "Plain {words}."]
    first = joined.values["sentence_1"]
    assert isinstance(first, Text)
    assert first.template == TOLD.template


def test_sentences_are_joined_by_what_is_given() -> None:
    assert join_sentences("a", "b", by="; or ") == "a; or b"
    assert join_sentences("a", "b", by=" {} ") == "a {} b"
    assert join_sentences("", "") == ""


def test_a_row_says_what_is_known_and_keeps_only_what_it_names() -> None:
    filled = fill("{gpu} needs {driver}", {"gpu": "H100", "rank": 3})
    assert filled == "H100 needs ?"
    assert (filled.template, filled.values) == (
        "{gpu} needs {driver}",
        {"gpu": "H100", "driver": "?"},
    )
    assert fill("plain", {"gpu": "H100"}).template == "plain"
