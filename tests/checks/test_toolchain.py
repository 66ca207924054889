from __future__ import annotations

import pytest

from envguard.checks.deepspeed import check_compilers
from envguard.facts.gaps import Gap, GapReason
from tests.checks.beside import facts_of, said

NO_NINJA = Gap("machine.toolkit.ninja", GapReason.ABSENT, "toolkit")


@pytest.mark.parametrize(
    ("torch", "gcc", "nvcc", "answers"),
    [
        ("2.5.1+cu124", "13.2.0", "12.4", []),
        ("2.5.1+cu124", "14.1.0", "12.4", [("DSP004", "host-compiler-not-accepted", "warn")]),
        ("2.5.1+cu124", "5.4.0", "12.4", [("DSP004", "host-compiler-not-accepted", "warn")]),
        ("2.14.1", "9.4.0", "13.0", [("DSP006", "compiler-too-old-for-torch", "warn")]),
        ("2.14.1", "10.5.0", "13.0", [("DSP006", "compiler-too-old-for-torch", "warn")]),
        ("2.14.1", "11.4.0", "13.0", []),
        ("2.14.1+cpu", "9.4.0", None, [("DSP006", "compiler-too-old-for-torch", "warn")]),
    ],
)
def test_host_compilers(
    torch: str, gcc: str, nvcc: str | None, answers: list[tuple[str, str, str]]
) -> None:
    facts = facts_of(f"torch=={torch}", "deepspeed==0.19.8", gcc=gcc, nvcc=nvcc)
    assert said(check_compilers, facts) == answers


def test_ninja_is_the_program_or_the_distribution() -> None:
    missing = facts_of("torch==2.5.1", "deepspeed==0.16.0", gaps=(NO_NINJA,))
    assert said(check_compilers, missing) == [("DSP005", "ninja-missing", "warn")]
    there = facts_of("torch==2.5.1", "deepspeed==0.16.0", "ninja==1.11.1", gaps=(NO_NINJA,))
    assert said(check_compilers, there) == []


def test_a_list_of_some_packages_does_not_prove_ninja_missing() -> None:
    partial = Gap("environment.distributions", GapReason.NOT_ASKED, "collect_env")
    facts = facts_of("torch==2.5.1", "deepspeed==0.16.0", gaps=(NO_NINJA, partial))
    assert said(check_compilers, facts) == []
