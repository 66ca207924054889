from __future__ import annotations

import pytest

from envguard.checks.breaks import check_breaks, known_values
from envguard.conditions import break_holds
from envguard.facts.environment import Manager
from envguard.facts.gaps import Gap, GapReason
from envguard.matrix.loader import Matrix
from tests.checks.beside import facts_of, findings, said

PARTIAL = Gap("environment.distributions", GapReason.NOT_ASKED, "collect_env")


@pytest.mark.parametrize(
    ("packages", "python", "answer"),
    [
        (
            ("torch==2.0.1", "deepspeed==0.8.1"),
            "3.10.2",
            ("BRK001", "ds-too-old-for-torch", "fail"),
        ),
        (
            ("torch==2.4.0", "deepspeed==0.14.3"),
            "3.10.2",
            ("BRK001", "ds-too-old-for-torch", "fail"),
        ),
        (
            ("torch==2.5.1", "deepspeed==0.14.0", "numpy==2.1.0"),
            "3.10.2",
            ("BRK001", "ds-too-old-for-numpy", "fail"),
        ),
        (
            ("torch==2.1.2", "deepspeed==0.19.3"),
            "3.10.2",
            ("BRK001", "ds-needs-newer-torch", "fail"),
        ),
        (
            ("torch==2.6.0", "deepspeed==0.15.4"),
            "3.10.2",
            ("BRK004", "ds-too-old-for-torch", "warn"),
        ),
        (
            ("torch==2.14.1", "deepspeed==0.19.4"),
            "3.12.3",
            ("BRK002", "ds-too-old-for-torch", "warn"),
        ),
        (
            ("torch==2.2.2", "numpy==2.0.1"),
            "3.12.3",
            ("BRK009", "torch-too-old-for-numpy", "fail"),
        ),
        (
            ("torch==2.1.2", "setuptools==82.0.0"),
            "3.10.2",
            ("BRK003", "setuptools-breaks-builds", "warn"),
        ),
        (
            ("torch==2.5.1", "transformers==4.45.0", "accelerate==0.33.0"),
            "3.12.3",
            ("BRK006", "transformers-regression", "fail"),
        ),
        (
            ("torch==2.5.1", "transformers==4.52.4", "accelerate==1.2.1"),
            "3.12.3",
            ("BRK006", "transformers-regression", "fail"),
        ),
        (
            ("torch==2.5.1", "transformers==4.39.3", "accelerate==1.0.1"),
            "3.12.3",
            ("BRK006", "transformers-regression", "fail"),
        ),
        (
            ("torch==2.4.1", "transformers==4.52.4"),
            "3.12.3",
            ("BRK006", "transformers-regression", "fail"),
        ),
        (
            ("peft==0.17.1", "transformers==5.0.0"),
            "3.12.3",
            ("BRK001", "transformers-regression", "fail"),
        ),
        (
            ("torch==2.6.0", "bitsandbytes==0.44.1", "triton==3.2.0"),
            "3.12.3",
            ("BRK001", "package-too-old-for-torch", "fail"),
        ),
        (
            ("vllm==0.9.2", "transformers==4.55.0"),
            "3.12.3",
            ("BRK001", "transformers-regression", "warn"),
        ),
        (
            ("torch==2.12.0", "setuptools==82.0.0"),
            "3.12.3",
            ("BRK005", "requirement-not-met", "warn"),
        ),
        (
            ("torch==2.8.0", "deepspeed==0.18.0"),
            "3.14.0",
            ("BRK001", "python-not-supported", "fail"),
        ),
        (
            ("torch==2.14.1", "flash-attn==2.8.3.post1"),
            "3.12.3",
            ("BRK003", "extension-too-old-for-torch", "warn"),
        ),
        (
            ("transformers==5.1.0", "deepspeed==0.18.5"),
            "3.12.3",
            ("BRK006", "transformers-regression", "fail"),
        ),
        (
            ("transformers==5.1.0",),
            "3.12.3",
            ("BRK006", "transformers-regression", "warn"),  # DeepSpeed is not listed
        ),
        (
            ("transformers==4.56.2", "torch==2.1.2"),
            "3.10.2",
            ("BRK001", "torch-too-old-for-package", "fail"),
        ),
    ],
)
def test_known_breaks(packages: tuple[str, ...], python: str, answer: tuple[str, str, str]) -> None:
    found = said(check_breaks, facts_of(*packages, python=python))
    assert answer in found


@pytest.mark.parametrize(
    "packages",
    [
        ("torch==2.8.0+cu128", "deepspeed==0.19.8", "numpy==2.3.5", "setuptools==80.9.0"),
        ("torch==2.3.1", "deepspeed==0.14.0", "numpy==1.26.4"),
        ("torch==2.3.1", "numpy==2.0.0"),
        ("torch==2.11.0", "transformers==5.6.2", "accelerate==1.10.0"),
        ("torch==2.4.1", "transformers==4.45.2", "accelerate==0.34.2", "peft==0.13.0"),
        ("torch==2.4.1", "transformers==4.44.2", "accelerate==0.29.3", "peft==0.11.1"),
        ("torch==2.4.1", "transformers==4.53.3", "accelerate==1.3.0", "peft==0.17.1"),
        ("torch==2.9.1", "transformers==5.0.0", "accelerate==1.11.0", "peft==0.18.0"),
        ("torch==2.6.0", "bitsandbytes==0.45.5", "triton==3.2.0"),
        ("torch==2.5.1", "bitsandbytes==0.44.1", "triton==3.1.0"),
        ("torch==2.7.1", "deepspeed==0.17.4", "transformers==4.46.1"),
        ("vllm==0.9.2", "transformers==4.53.3"),
        ("torch==2.5.0", "torchvision==0.20.0", "torchaudio==2.5.0"),
    ],
)
def test_sound_combinations_have_no_failure(packages: tuple[str, ...]) -> None:
    found = findings(check_breaks, facts_of(*packages, python="3.11.9"))
    assert [f.title for f in found if f.status.value in {"fail", "unknown"}] == []


def test_a_feature_that_must_be_switched_on_does_not_count() -> None:
    found = findings(check_breaks, facts_of("torch==2.8.0+cu128", "deepspeed==0.19.0"))
    zenflow = next(f for f in found if "ZenFlow" in f.title)
    assert zenflow.status.value == "skip"
    assert zenflow.detail.startswith("Only where ZenFlow is used.")


def test_what_other_checks_judge_is_left_to_them() -> None:
    facts = facts_of("torch==2.11.0+cu129", "vllm==0.21.0", "deepspeed==0.19.8", nvcc="12.4")
    titles = [f.title for f in findings(check_breaks, facts)]
    assert not any("PyPI's vllm" in title or "toolkit" in title for title in titles)


def test_what_only_a_log_shows_is_not_said_of_versions() -> None:
    facts = facts_of("torch==2.0.1", "transformers==5.0.0", "trl==0.24.0", "torchaudio==2.9.1")
    titles = [f.title for f in findings(check_breaks, facts)]
    assert not any("A Trainer was" in title or "A package uses" in title for title in titles)


@pytest.mark.parametrize(
    ("packages", "answer"),
    [
        (("transformers==4.45.0.dev0", "accelerate==0.33.0"), False),  # what a release before has
        (("transformers==4.45.0.dev0", "accelerate==0.34.2"), True),
        (("accelerate==0.33.0",), False),
        (("transformers==4.44.2",), True),
        ((), False),
    ],
)
def test_known_versions_rule_a_break_out(packages: tuple[str, ...], answer: bool) -> None:
    row = Matrix.load().breaks.named("tf-acc-optimizer-train")
    assert row is not None
    known = known_values(facts_of(*packages))
    assert (break_holds(row, known, is_shown=True) is False) is answer


def test_windows_got_numpy_2_later() -> None:
    packages = ("torch==2.4.0", "numpy==2.0.1")
    windows = said(check_breaks, facts_of(*packages, platform="windows-x86_64"))
    assert windows == [("BRK009", "torch-too-old-for-numpy", "fail")]
    assert said(check_breaks, facts_of(*packages)) == []


def test_a_missing_package_is_only_known_from_a_complete_list() -> None:
    packages = ("torch==2.4.0", "deepspeed==0.16.0")
    complete = said(check_breaks, facts_of(*packages))
    assert ("BRK001", "distutils-missing", "fail") in complete
    partial = said(check_breaks, facts_of(*packages, gaps=(PARTIAL,)))
    assert ("BRK001", "distutils-missing", "fail") not in partial
    there = said(check_breaks, facts_of(*packages, "setuptools==75.0.0"))
    assert ("BRK001", "distutils-missing", "fail") not in there


def test_apex_builds_with_torchs_own_toolkit_only() -> None:
    wrong = facts_of("torch==2.5.1+cu124", "apex==0.1", nvcc="12.6")
    right = facts_of("torch==2.5.1+cu124", "apex==0.1", nvcc="12.4")
    answer = ("BRK003", "toolkit-minor-mismatch", "warn")
    assert answer in said(check_breaks, wrong)
    assert answer not in said(check_breaks, right)


def test_nightlies_are_not_judged_by_release_numbers() -> None:
    facts = facts_of("torch==2.4.0.dev20240401+cu121", "deepspeed==0.14.0", python="3.11.9")
    assert [f.cause for f in findings(check_breaks, facts) if f.status.value == "fail"] == []


def test_the_remedy_is_a_command_of_the_subjects_manager() -> None:
    packages = ("torch==2.5.1", "deepspeed==0.14.3", "setuptools==75.0.0")
    facts = facts_of(*packages, manager=Manager.POETRY)
    found = next(f for f in findings(check_breaks, facts) if f.code == "BRK001")
    assert found.remedy is not None
    assert found.remedy.command == ("poetry", "add", "deepspeed>=0.14.4")
    assert found.source is not None
    assert found.source.url == "https://github.com/deepspeedai/DeepSpeed/pull/5654"


def test_evidence_names_every_condition() -> None:
    facts = facts_of("torch==2.14.1", "deepspeed==0.19.6", nvcc="13.0")
    found = next(f for f in findings(check_breaks, facts) if "nvcc of CUDA 13" in f.title)
    assert [e.fact for e in found.evidence] == [
        "distribution[deepspeed].version",
        "distribution[torch].version",
        "toolkit.nvcc",
    ]
