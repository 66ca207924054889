"""Facts to JSON and back, and what a malformed document says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envguard.errors import DocumentError
from envguard.facts.codec import from_dict, to_dict
from envguard.facts.environment import Environment
from envguard.facts.facts import Facts, facts_document, parse_facts_document
from envguard.facts.findings import Evidence
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Driver, Gpu, Host, Machine
from envguard.facts.versions import DriverVersion
from tests.facts import strategies

SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(strategies.facts)
def test_facts_survive_the_round_trip(facts: Facts) -> None:
    document = json.loads(json.dumps(facts_document(facts)))
    again = parse_facts_document(document, "facts.json")
    assert again == facts
    assert facts_document(again) == facts_document(facts)


@SLOW
@given(strategies.facts, st.data())
def test_a_document_with_one_wrong_value_is_read_or_refused(
    facts: Facts, data: st.DataObject
) -> None:
    document = facts_document(facts)
    spot(document, data)
    assert refusal(document).startswith("facts.json:")


def refusal(document: object) -> str:
    """The message of a refused document, the name alone of one that is read."""
    try:
        parse_facts_document(document, "facts.json")
    except DocumentError as err:
        return err.message
    return "facts.json:"


def spot(document: Any, data: st.DataObject) -> None:
    """Put a random value somewhere into the document."""
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            place[key] = data.draw(strategies.json_values)
            return
        place = inner


@settings(max_examples=200, deadline=None)
@given(strategies.json_values)
def test_any_json_is_read_or_refused(value: Any) -> None:
    with pytest.raises(DocumentError):
        parse_facts_document(value, "facts.json")


def test_values_with_a_text_form_are_text() -> None:
    driver = Driver(version=DriverVersion.parse("550.144.03"))
    assert to_dict(driver)["version"] == "550.144.03"


def test_leading_zeros_of_a_driver_survive() -> None:
    driver = from_dict(Driver, {"version": "535.104.05"}, "d")
    assert str(driver.version) == "535.104.05"


def test_a_fields_json_name_is_its_key() -> None:
    evidence = Evidence("gpu[0].capability", "7.0", "nvml")
    written = to_dict(evidence)
    assert written == {"fact": "gpu[0].capability", "value": "7.0", "from": "nvml"}
    assert from_dict(Evidence, written, "e") == evidence


def test_an_unknown_key_is_ignored_and_a_missing_one_takes_its_default() -> None:
    assert from_dict(Gpu, {"index": 1, "colour": "green"}, "g") == Gpu(1)


def test_none_and_empty_stay_apart() -> None:
    assert from_dict(Machine, to_dict(Machine(gpus=None)), "m").gpus is None
    assert from_dict(Machine, to_dict(Machine(gpus=())), "m").gpus == ()
    assert from_dict(Environment, {"distributions": []}, "e").distributions == ()


def test_something_without_json_form_is_a_programming_error() -> None:
    with pytest.raises(TypeError, match="complex has no JSON form"):
        to_dict(3j)


WRONG = [
    ({"machine": []}, "f: machine: expected an object, found a list"),
    ({"machine": {"gpus": {}}}, "f: machine.gpus: expected a list, found an object"),
    ({"machine": {"gpus": [{}]}}, "f: machine.gpus[0].index is missing"),
    (
        {"machine": {"gpus": [{"index": "0"}]}},
        "f: machine.gpus[0].index: expected an integer, found a string",
    ),
    (
        {"machine": {"gpus": [{"index": True}]}},
        "f: machine.gpus[0].index: expected an integer, found a boolean",
    ),
    (
        {"machine": {"driver": {"cuda": 12.4}}},
        "f: machine.driver.cuda: expected a string, found a number",
    ),
    (
        {"machine": {"driver": {"cuda": "twelve"}}},
        "f: machine.driver.cuda: 'twelve' is not a CUDA version such as 12.8",
    ),
    (
        {"machine": {"variables": [["A"]]}},
        "f: machine.variables[0]: expected 2 items, found 1",
    ),
    (
        {"environment": {"torch": {"version": "new"}}},
        "f: environment.torch.version: Invalid version: 'new'",
    ),
    (
        {"gaps": [{"fact": "x", "reason": "tired", "probe": "y"}]},
        "f: gaps[0].reason: 'tired' is none of absent, forbidden, mismatch, timed-out, crashed, "
        "unreadable, not-asked",
    ),
]


@pytest.mark.parametrize(("data", "message"), WRONG, ids=[m for _, m in WRONG])
def test_a_wrong_value_is_named_with_its_path(data: Any, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        from_dict(Facts, data, "f")
    assert caught.value.message == message.replace("f: ", "f:", 1)


def test_a_gap_is_found_by_its_fact() -> None:
    first = Gap("machine.gpus", GapReason.ABSENT, "nvml")
    second = Gap("machine.gpus", GapReason.CRASHED, "nvidia-smi")
    facts = Facts().with_gaps(first, second)
    assert facts.gap("machine.gpus") is first
    assert facts.gap("machine.driver") is None


def test_a_host_of_an_unknown_platform_is_refused() -> None:
    with pytest.raises(DocumentError, match="'solaris-sparc' is not a platform"):
        from_dict(Host, {"platform": "solaris-sparc"}, "h")
