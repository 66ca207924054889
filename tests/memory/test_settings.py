from __future__ import annotations

import pytest

from envguard.errors import InputError
from envguard.memory.job import Strategy
from envguard.memory.settings import Settings, merge_settings


def test_a_value_stated_twice_alike_is_one() -> None:
    settings = Settings()
    settings.state("strategy", Strategy.ZERO2, "a.json: stage")
    settings.state("strategy", Strategy.ZERO2, "--strategy")
    assert settings.get("strategy", Strategy) is Strategy.ZERO2
    assert settings.where("strategy") == "a.json: stage"


def test_two_values_for_one_thing_name_both_places() -> None:
    settings = Settings()
    settings.state("strategy", Strategy.ZERO2, "a.json: stage")
    with pytest.raises(InputError, match=r"--strategy is zero3, but a\.json: stage is zero2"):
        settings.overrule("strategy", Strategy.ZERO3, "--strategy")


def test_an_option_overrules_a_default_but_a_file_does_not() -> None:
    settings = Settings()
    settings.state("micro_batch", 8, "a.json: batch", is_default=True)
    settings.overrule("micro_batch", 2, "--micro-batch")
    assert settings.get("micro_batch", int) == 2
    one, two = Settings(), Settings()
    one.state("micro_batch", 8, "a.json: batch", is_default=True)
    two.state("micro_batch", 4, "ds.json: batch")
    with pytest.raises(InputError, match=r"ds\.json: batch is 4, but a\.json: batch is 8"):
        merge_settings([one, two])


def test_none_states_nothing() -> None:
    settings = Settings()
    settings.state("gpus", None, "--gpus")
    assert settings.get("gpus", int) is None
