"""Conditions of known breaks and bugs: yes, no, and not known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.conditions import (
    ABSENCES,
    KnownValues,
    admits,
    bounds_hold,
    break_holds,
    bug_holds,
    contradicted,
    predicate_holds,
    subjects,
)
from envguard.facts.versions import CudaVersion
from envguard.matrix.loader import Matrix

if TYPE_CHECKING:
    from envguard.matrix.breaks import Break


def versions(**found: str) -> dict[str, Version]:
    return {name.replace("__", "-"): Version(text) for name, text in found.items()}


def bounds(**texts: str) -> dict[str, SpecifierSet]:
    return {name.replace("__", "-"): SpecifierSet(text) for name, text in texts.items()}


def row(**fields: object) -> Break:
    """A break without any condition but those given."""
    known = Matrix.load().breaks.named("ds-distutils")
    assert known is not None
    plain = replace(known, when={}, platform="", any_of={}, predicate="", beside="")
    return replace(plain, **fields)  # type: ignore[arg-type]  # whatever the test is about


@pytest.mark.parametrize(
    ("bound", "version", "answer"),
    [
        (">=2.6", "2.6.0+cu124", True),
        ("==2.6.0", "2.6.0+cu124", True),
        ("<2.6", "2.6.0.dev20250101", False),  # of 2.6, says PEP 440
        ("<2.7", "2.6.0.dev20250101", True),
        (">=2.6", "2.6.0rc1", False),
        ("", "3.0a1", True),
    ],
)
def test_a_local_label_does_not_matter_and_early_versions_count(
    bound: str, version: str, answer: bool
) -> None:
    assert admits(SpecifierSet(bound), Version(version)) is answer


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (versions(torch="2.3.1", numpy="2.1.0"), True),
        (versions(torch="2.3.1", numpy="1.26.4"), False),
        (versions(numpy="1.26.4"), False),  # one that is broken decides
        (versions(numpy="2.1.0"), None),
        ({}, None),
    ],
)
def test_bounds_hold_break_or_are_open(found: dict[str, Version], answer: bool | None) -> None:
    assert bounds_hold(bounds(torch="<2.4", numpy=">=2"), found) is answer


def test_no_bounds_hold() -> None:
    assert bounds_hold({}, {}) is True


def test_what_is_contradicted_is_said_by_name() -> None:
    asked = bounds(torch=">=2.4", numpy="<2", peft=">=0.10")
    assert contradicted(asked, versions(torch="2.3.1", numpy="1.26.4")) == bounds(torch=">=2.4")


def test_a_python_of_two_parts_stands_for_its_first_release() -> None:
    assert bounds_hold(bounds(python=">=3.12"), versions(python="3.12")) is True
    assert bounds_hold(bounds(python="<=3.12.0"), versions(python="3.12")) is True
    assert bounds_hold(bounds(python="<3.12"), versions(python="3.12")) is False


def test_what_a_log_shows_is_in_a_version_before_the_release() -> None:
    early = versions(transformers="4.46.0.dev0")
    assert bounds_hold(bounds(transformers=">=4.46"), early) is False
    assert bounds_hold(bounds(transformers=">=4.46"), early, is_shown=True) is True
    assert bounds_hold(bounds(transformers=">=4.47"), early, is_shown=True) is False


@pytest.mark.parametrize(("system", "answer"), [("linux", True), ("windows", False), ("", None)])
def test_a_platform_is_a_condition(system: str, answer: bool | None) -> None:
    known = KnownValues(versions(torch="2.5.0"), system)
    assert break_holds(row(when=bounds(torch="==2.5.0"), platform="linux"), known) is answer


@pytest.mark.parametrize(
    ("found", "listed", "answer"),
    [
        (versions(flash__attn="2.8.0"), None, True),
        (versions(flash__attn="2.9.0"), None, None),
        (versions(flash__attn="2.9.0"), {"flash-attn"}, False),
        (versions(flash__attn="2.9.0"), {"flash-attn", "mamba-ssm"}, None),
        (versions(flash__attn="2.9.0", mamba__ssm="3"), None, False),
        (versions(flash__attn="2.9.0", mamba__ssm="1"), None, True),
        ({}, set(), False),
    ],
)
def test_one_of_several_has_to_be_there(
    found: dict[str, Version], listed: set[str] | None, answer: bool | None
) -> None:
    either = row(any_of=bounds(flash__attn="<2.9", mamba__ssm="<2"))
    names = None if listed is None else frozenset(listed)
    assert break_holds(either, KnownValues(found, distributions=names)) is answer


def test_the_subjects_are_those_of_the_alternatives_that_hold() -> None:
    either = row(any_of=bounds(flash__attn="<2.9", mamba__ssm="<2", apex=""))
    assert subjects(either, versions(mamba__ssm="1.0", flash__attn="3.0")) == ("mamba-ssm",)


@pytest.mark.parametrize(
    ("predicate", "known", "answer"),
    [
        ("", KnownValues({}), True),
        ("no-setuptools", KnownValues({}), None),
        ("no-setuptools", KnownValues(versions(setuptools="80")), False),
        ("no-setuptools", KnownValues({}, distributions=frozenset({"torch"})), True),
        ("no-setuptools", KnownValues({}, distributions=frozenset({"setuptools"})), False),
        ("no-pkg-resources", KnownValues({}, distributions=frozenset({"packaging"})), False),
        ("no-pkg-resources", KnownValues({}, distributions=frozenset()), True),
        ("toolkit-minor-differs", KnownValues({}, cuda=CudaVersion(12, 4)), None),
        (
            "toolkit-minor-differs",
            KnownValues({}, cuda=CudaVersion(12, 4), toolkit=CudaVersion(12, 4)),
            False,
        ),
        (
            "toolkit-minor-differs",
            KnownValues({}, cuda=CudaVersion(12, 1), toolkit=CudaVersion(12, 10)),
            True,
        ),
        ("from-pypi", KnownValues({}), None),  # its own check knows
    ],
)
def test_predicates(predicate: str, known: KnownValues, answer: bool | None) -> None:
    assert predicate_holds(predicate, known) is answer
    assert break_holds(row(predicate=predicate), known) is answer


def test_one_condition_that_fails_decides_whatever_else_is_open() -> None:
    joint = row(when=bounds(torch="<2"), platform="linux", predicate="no-setuptools")
    assert break_holds(joint, KnownValues(versions(torch="2.5.0"))) is False
    assert break_holds(joint, KnownValues(versions(torch="1.13.1"))) is None


@pytest.mark.parametrize(
    ("gpus", "cuda", "answer"),
    [
        (frozenset({"NVIDIA", "H20"}), "12.1", True),
        (frozenset({"NVIDIA", "H200"}), "12.1", False),
        (frozenset({"NVIDIA", "H200"}), "", False),
        (None, "12.1", None),
        (frozenset({"NVIDIA", "H20"}), "", None),
        (None, "12.4", False),
    ],
)
def test_a_bug_is_bounded_by_gpu_and_version(
    gpus: frozenset[str] | None, cuda: str, answer: bool | None
) -> None:
    bugs = Matrix.load().causes.native_bugs
    bug = next(bug for bug in bugs if bug.id == "cublas-h20-divide")
    found = versions(torch_cuda=cuda) if cuda else {}
    assert bug_holds(bug, KnownValues(found, gpus=gpus)) is answer


def test_every_predicate_of_the_table_is_decided_here_or_by_the_check_that_handles_the_row() -> (
    None
):
    complete = KnownValues({}, "linux", frozenset(), frozenset(), CudaVersion(12, 4))
    complete = replace(complete, toolkit=CudaVersion(12, 6))
    rows = Matrix.load().breaks.all
    asked = {row.predicate for row in rows if not row.handled_by}
    assert {name for name in asked if predicate_holds(name, complete) is None} == set()
    assert {row.predicate for row in rows} >= ABSENCES.keys()
