"""Odd documents of every family never break the program: one clear error, or an answer."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.fuzz_families import FAMILIES
from scripts.fuzz_grammar import Doubled, Raw, write_json, write_toml
from scripts.fuzz_readers import run_case

if TYPE_CHECKING:
    from pathlib import Path

# scripts/fuzz_readers.py goes on for as long as one likes; here each family takes a second or two
SHORT = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_odd_documents_never_break_the_program(
    family: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    @SHORT
    @given(seed=st.integers(0, 2**32))
    def check(seed: int) -> None:
        folder = tmp_path_factory.mktemp(family)
        outcome = run_case(family, Random(seed), folder, longest_s=0)  # noqa: S311 - no secret
        assert outcome.fault == "", outcome.said[-4000:]
        assert outcome.code in {0, 1, 2, 3}

    check()


def test_a_fault_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzzer itself: a command that breaks is told, with the place."""

    def break_it(random: Random, folder: Path) -> list[str]:
        return ["explain", "GPU001", "--format", "json"]

    monkeypatch.setitem(FAMILIES, "broken", break_it)
    monkeypatch.setattr("envguard.cli.main._run", lambda arguments, begin: 1 // 0)
    outcome = run_case("broken", Random(0), tmp_path, longest_s=0)  # noqa: S311 - no secret
    assert outcome.code == 4
    assert "ZeroDivisionError" in outcome.fault


def test_documents_say_what_no_encoder_says() -> None:
    tree = {"a": Doubled(1, Raw("1e400")), "b": [10**30, "\ud800"]}
    assert write_json(tree) == '{"a": 1, "a": 1e400, "b": [' + "1" + "0" * 30 + ', "\\ud800"]}'
    assert write_toml({"t": {"k": Raw("NaN")}}) == '"t" = {"k" = nan}\n'
