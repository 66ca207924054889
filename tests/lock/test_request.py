"""Requirements as words, and the target as uv and markers name it."""

from __future__ import annotations

import pytest
from packaging.markers import Marker
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.errors import ExitCode, InputError
from envguard.facts.machine import Platform
from envguard.lock.request import (
    LockRequest,
    Target,
    parse_arguments,
    parse_date,
    parse_requirement,
)


def target(platform: str = "linux-x86_64", glibc: str | None = None) -> Target:
    return Target(Platform.parse(platform), Version("3.12"), Version(glibc) if glibc else None)


@pytest.mark.parametrize(
    ("platform", "glibc", "name"),
    [
        ("linux-x86_64", "2.17", "x86_64-manylinux_2_17"),
        ("linux-x86_64", "2.27", "x86_64-manylinux_2_17"),
        ("linux-x86_64", "2.28", "x86_64-manylinux_2_28"),
        ("linux-x86_64", "2.30", "x86_64-manylinux_2_28"),
        ("linux-x86_64", "2.31", "x86_64-manylinux_2_31"),
        ("linux-aarch64", "2.39", "aarch64-manylinux_2_39"),
        ("linux-x86_64", "2.43", "x86_64-manylinux_2_40"),
        ("linux-x86_64", None, "x86_64-unknown-linux-gnu"),
        ("windows-x86_64", None, "x86_64-pc-windows-msvc"),
        ("macos-aarch64", None, "aarch64-apple-darwin"),
    ],
)
def test_target_has_the_name_that_uv_gives_it(platform: str, glibc: str | None, name: str) -> None:
    assert target(platform, glibc).uv_platform == name


def test_marker_of_the_target_holds_there_and_nowhere_else() -> None:
    marker = Marker(target("windows-x86_64").marker)
    assert marker.evaluate(target("windows-x86_64").marker_variables)
    assert not marker.evaluate(target("linux-x86_64").marker_variables)


def test_bounds_on_torch_count_where_their_marker_holds() -> None:
    words = ("torch<2.8", "torch>=2.6 ; sys_platform == 'linux'", "torch<2 ; os_name == 'nt'")
    request = LockRequest(parse_arguments(words), target())
    assert request.torch == SpecifierSet("<2.8,>=2.6")


def test_constraints_bound_torch_too() -> None:
    constraints = (parse_requirement("torch!=2.7.0", "c.txt:1"),)
    request = LockRequest(parse_arguments(["torch"]), target(), constraints=constraints)
    assert request.torch == SpecifierSet("!=2.7.0")


@pytest.mark.parametrize("word", ["torch<<2", "torch==", "=2", "a b", "", "torch @"])
def test_word_that_does_not_parse_is_named(word: str) -> None:
    with pytest.raises(InputError, match="argument: requirement") as caught:
        parse_arguments([word])
    assert repr(word) in caught.value.message
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    "word",
    [
        "torch @ https://index.example/torch-2.8.0-py3-none-any.whl",
        "https://index.example/x.whl",
        "git+https://git.example/x.git",
        "./folder",
        "../torch-2.8.0-py3-none-any.whl",
        "torch-2.8.0-py3-none-any.whl",
    ],
)
def test_address_or_path_is_refused(word: str) -> None:
    with pytest.raises(InputError, match="addres"):
        parse_arguments([word])


def test_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(InputError) as caught:
        parse_arguments(["x @ https://me:s3cret@index.example/x.whl"])
    assert "s3cret" not in caught.value.message


@pytest.mark.parametrize("text", ["2026-06-30", "2026-06-30T12:00:00Z"])
def test_cut_off_date_is_taken_as_written(text: str) -> None:
    assert parse_date(text) == text


def test_cut_off_that_is_no_date_is_refused() -> None:
    with pytest.raises(InputError, match=r"--exclude-newer: 'yesterday'"):
        parse_date("yesterday")
