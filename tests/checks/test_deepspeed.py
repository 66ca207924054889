"""None"""

from __future__ import annotations

import pytest

from envguard.checks.deepspeed import check_compilers, check_toolkit, check_windows_build
from envguard.facts.environment import BuildOrigin
from envguard.facts.gaps import Gap, GapReason
from tests.checks.beside import distribution, facts_of, findings, said

NO_NVCC = Gap("machine.toolkit.nvcc", GapReason.ABSENT, "toolkit", "no nvcc on PATH")
NO_ANSWER = Gap("machine.toolkit.nvcc", GapReason.ABSENT, "collect_env", "nvcc did not answer")
SKIP = (("DS_SKIP_CUDA_CHECK", "1"),)


@pytest.mark.parametrize(
    ("torch", "deepspeed", "nvcc", "answer"),
    [
        ("2.2.1", "0.14.0", "11.8", ("DSP001", "toolkit-major-mismatch", "fail")),
        ("2.2.1", "0.14.0", "12.1", ("DSP000", "toolkit-fits", "ok")),
        ("2.2.1", "0.14.0", "12.3", ("DSP002", "toolkit-minor-mismatch-ok", "ok")),
        ("2.4.0", "0.14.0", "12.4", ("DSP008", "toolkit-minor-mismatch", "warn")),
        ("2.8.0+cu128", "0.16.3", "12.4", ("DSP008", "toolkit-minor-mismatch", "warn")),
        ("2.8.0+cu128", "0.16.4", "12.4", ("DSP002", "toolkit-minor-mismatch-ok", "ok")),
        ("2.11.0", "0.19.8", "13.2", ("DSP008", "toolkit-minor-mismatch", "warn")),
        ("2.11.0", "0.19.8", "13.0", ("DSP000", "toolkit-fits", "ok")),
        ("2.11.0", "0.19.8", "12.8", ("DSP001", "toolkit-major-mismatch", "fail")),
        ("2.0.1+cu118", "0.10.0", "11.7", ("DSP002", "toolkit-minor-mismatch-ok", "ok")),
        ("2.11.0", "0.99.0", "13.2", ("DSP008", "toolkit-minor-mismatch", "warn")),
    ],
)
def test_toolkit_against_torch(
    torch: str, deepspeed: str, nvcc: str, answer: tuple[str, str, str]
) -> None:
    facts = facts_of(f"torch=={torch}", f"deepspeed=={deepspeed}", nvcc=nvcc)
    assert said(check_toolkit, facts) == [answer]


def test_the_variable_turns_the_comparison_off() -> None:
    minor = facts_of("torch==2.11.0", "deepspeed==0.19.8", nvcc="13.2", variables=SKIP)
    assert said(check_toolkit, minor) == [("DSP008", "toolkit-minor-mismatch", "ok")]
    major = facts_of("torch==2.11.0", "deepspeed==0.19.8", nvcc="12.8", variables=SKIP)
    assert said(check_toolkit, major) == [("DSP001", "toolkit-major-mismatch", "warn")]


def test_releases_before_the_variable_do_not_look_at_it() -> None:
    facts = facts_of("torch==2.0.1", "deepspeed==0.9.2", nvcc="12.1", variables=SKIP)
    assert said(check_toolkit, facts) == [("DSP001", "toolkit-major-mismatch", "fail")]


@pytest.mark.parametrize(
    ("deepspeed", "gap", "gpus", "status"),
    [
        ("0.15.1", NO_NVCC, ("9.0",), "fail"),  # raises at import
        ("0.15.1", NO_ANSWER, ("9.0",), "warn"),  # nvcc may lie off PATH
        ("0.15.1", NO_NVCC, (), "warn"),  # no GPU: the probe is not reached
        ("0.19.5", NO_NVCC, ("9.0",), "warn"),
    ],
)
def test_no_toolkit(deepspeed: str, gap: Gap, gpus: tuple[str, ...], status: str) -> None:
    facts = facts_of("torch==2.5.1", f"deepspeed=={deepspeed}", gpus=gpus, gaps=(gap,))
    assert said(check_toolkit, facts) == [("DSP003", "toolkit-missing", status)]


def test_a_toolkit_that_nobody_looked_for_is_not_missing() -> None:
    gap = Gap("machine.toolkit.nvcc", GapReason.NOT_ASKED, "toolkit")
    facts = facts_of("torch==2.5.1", "deepspeed==0.15.1", gaps=(gap,))
    assert said(check_toolkit, facts) == []
    assert said(check_toolkit, facts_of("torch==2.5.1", "deepspeed==0.15.1")) == []


def test_without_deepspeed_or_a_cuda_build_there_is_nothing_to_compare() -> None:
    assert said(check_toolkit, facts_of("torch==2.5.1", nvcc="11.8")) == []
    assert said(check_toolkit, facts_of("torch==2.5.1+cpu", "deepspeed==0.15.1", nvcc="11.8")) == []


def test_a_pin_on_windows_builds_without_torch() -> None:
    facts = facts_of(
        "torch==2.8.0+cu128",
        "deepspeed==0.17.6",
        platform="windows-x86_64",
        origin=BuildOrigin.PIN,
        executable=None,
    )
    (finding,) = findings(check_windows_build, facts)
    assert (finding.cause, finding.status.value) == ("build-isolation", "fail")
    assert finding.remedy is not None
    assert "--no-build-isolation" in finding.remedy.command


def test_releases_with_a_windows_wheel_and_installed_ones_are_fine() -> None:
    wheel = facts_of(
        "torch==2.6.0",
        "deepspeed==0.16.5",
        platform="windows-x86_64",
        origin=BuildOrigin.PIN,
        executable=None,
    )
    assert said(check_windows_build, wheel) == []
    installed = facts_of("torch==2.8.0+cu128", "deepspeed==0.17.6", platform="windows-x86_64")
    assert said(check_windows_build, installed) == []
    linux = facts_of(
        "torch==2.8.0+cu128", "deepspeed==0.17.6", origin=BuildOrigin.PIN, executable=None
    )
    assert said(check_windows_build, linux) == []


def test_the_release_row_is_the_source() -> None:
    facts = facts_of("torch==2.2.1", distribution("deepspeed==0.14.0"), nvcc="11.8")
    (finding,) = findings(check_toolkit, facts)
    assert finding.source is not None
    assert finding.source.url == "https://github.com/deepspeedai/DeepSpeed/tree/v0.14.0"


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
