from __future__ import annotations

from dataclasses import replace

import pytest
from packaging.version import Version

from envguard.checks.wheel import check_build_published, check_c_library, check_python_tag
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Machine, Platform
from tests.checks.sample import H100, environment, facts, machine, pinned, run, said, torch_build


def on(platform: str) -> Machine:
    base = machine(H100)
    return replace(base, host=replace(base.host, platform=Platform.parse(platform)))


@pytest.mark.parametrize(
    ("platform", "version", "code"),
    [
        ("linux-x86_64", "2.7.1+cu128", None),
        ("linux-x86_64", "2.5.1+cu128", "WHL008"),
        ("windows-x86_64", "2.11.0+cu129", "WHL008"),
        ("linux-x86_64", "2.15.0+cu134", None),  # announced, not confirmed
        ("macos-x86_64", "2.7.1+cpu", "WHL007"),
        ("macos-aarch64", "2.7.1+cpu", None),
        ("linux-x86_64", "2.99.0+cu128", None),  # a release that is not recorded
    ],
)
def test_a_pin_names_a_build_that_exists(platform: str, version: str, code: str | None) -> None:
    found = run(check_build_published, facts(on(platform), pinned(version)))
    assert [f.code for f in found] == ([code] if code else [])
    assert all(f.status.value == "fail" for f in found)


def test_the_builds_that_exist_are_named() -> None:
    (finding,) = run(check_build_published, facts(env=pinned("2.5.1+cu128")))
    assert finding.cause == "resolver-local-version"
    assert finding.detail == "torch 2.5.1 is published there as cpu, cu118, cu121, cu124."


def test_what_is_installed_was_published() -> None:
    env = environment(torch_build("2.5.1+cu128"))
    assert said(check_build_published, facts(env=env)) == []
    assert said(check_python_tag, facts(env=env)) == []


@pytest.mark.parametrize(
    ("version", "codes"),
    [
        ("2.5.1+cu128", [("WHL008", "resolver-local-version", "fail")]),  # on no platform
        ("2.5.1+cu124", []),
        ("2.7.1+cu126", []),  # not for linux-aarch64
        ("2.7.1+cu999", [("WHL008", "resolver-local-version", "fail")]),
    ],
)
def test_where_the_platform_is_not_stated_a_build_has_to_be_missing_on_all(
    version: str, codes: list[tuple[str, str, str]]
) -> None:
    base = machine(H100)
    nowhere = replace(base, host=replace(base.host, platform=None))
    assert said(check_build_published, facts(nowhere, pinned(version))) == codes


def test_no_cuda_build_exists_for_macos() -> None:
    (finding,) = run(check_build_published, facts(on("macos-aarch64"), pinned("2.7.1+cu128")))
    assert (finding.cause, finding.status.value) == ("resolver-local-version", "fail")
    assert finding.remedy is not None
    assert finding.remedy.text == "pin torch==2.7.1, or a release that has this build"


@pytest.mark.parametrize(
    ("version", "python", "fails"),
    [
        ("2.5.1+cu124", "3.14", True),
        ("2.5.1+cu124", "3.13", False),
        ("2.5.1+cu124", "3.8", True),
        ("2.15.0+cu132", "3.10", True),
        ("2.15.0+cu132", "3.11", False),
    ],
)
def test_wheels_are_made_for_some_pythons(version: str, python: str, fails: bool) -> None:
    found = facts(env=pinned(version, python=python))
    expected = [("WHL009", "no-wheel-for-python", "fail")] if fails else []
    assert said(check_python_tag, found) == expected


def test_the_nearest_release_for_that_python_is_named() -> None:
    (finding,) = run(check_python_tag, facts(env=pinned("2.5.1+cu124", python="3.14")))
    assert finding.title == ("no wheel of torch 2.5.1+cu124 is published for Python 3.14 (cp314)")
    assert finding.remedy is not None
    assert finding.remedy.text == (
        "use a Python of cp39 cp310 cp311 cp312 cp313, or torch 2.9.0, which has wheels for cp314"
    )


def with_glibc(version: str | None) -> Machine:
    base = machine(H100)
    glibc = Version(version) if version else None
    return replace(base, host=replace(base.host, glibc=glibc))


OLD_GLIBC = [("WHL010", "glibc-too-old", "fail")]


@pytest.mark.parametrize(
    ("glibc", "version", "fails"),
    [
        ("2.17", "2.7.1+cu128", True),
        ("2.28", "2.7.1+cu128", False),
        ("2.17", "2.4.1+cu121", False),
        (None, "2.7.1+cu128", False),
    ],
)
def test_wheels_need_a_c_library(glibc: str | None, version: str, fails: bool) -> None:
    found = facts(with_glibc(glibc), pinned(version))
    assert said(check_c_library, found) == (OLD_GLIBC if fails else [])


def test_musl_runs_no_manylinux_wheel() -> None:
    musl = Gap(
        "machine.host.glibc",
        GapReason.ABSENT,
        "host",
        "this system's C library is not glibc (musl, for instance)",
    )
    assert said(check_c_library, facts(with_glibc(None), pinned("2.7.1+cu128"), gaps=(musl,))) == (
        OLD_GLIBC
    )
