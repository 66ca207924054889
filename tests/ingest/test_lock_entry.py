"""None"""

from __future__ import annotations

import pytest
from packaging.version import Version

from envguard.facts.machine import Platform
from envguard.ingest.lock_entry import (
    LockfileTarget,
    Wheel,
    environments_of,
    holds,
    marker_variables,
    wheels_of,
)


@pytest.mark.parametrize(
    ("tags", "platform", "python", "free_threaded", "expected"),
    [
        ("cp312-cp312-manylinux_2_28_x86_64", "linux-x86_64", "3.12", False, True),
        ("cp312-cp312-manylinux_2_28_x86_64", "linux-aarch64", "3.12", False, False),
        ("cp312-cp312-manylinux_2_28_x86_64", "windows-x86_64", "3.12", False, False),
        ("cp312-cp312-linux_x86_64", "linux-x86_64", "3.11", False, False),
        ("cp313-cp313t-manylinux_2_28_x86_64", "linux-x86_64", "3.13", True, True),
        ("cp313-cp313t-manylinux_2_28_x86_64", "linux-x86_64", "3.13", False, False),
        ("cp313-cp313-manylinux_2_28_x86_64", "linux-x86_64", "3.13", True, False),
        ("cp38-abi3-manylinux_2_28_x86_64", "linux-x86_64", "3.12", False, True),
        ("cp313-abi3-manylinux_2_28_x86_64", "linux-x86_64", "3.12", False, False),
        ("py3-none-any", "macos-aarch64", "3.12", True, True),
        ("py2.py3-none-any", "windows-x86_64", "3.12", False, True),
        ("py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64", "linux-x86_64", "3.9", False, True),
        ("cp312-none-macosx_11_0_arm64", "macos-aarch64", "3.12", False, True),
        ("cp312-none-macosx_11_0_arm64", "macos-x86_64", "3.12", False, False),
        ("cp312-cp312-macosx_11_0_universal2", "macos-x86_64", "3.12", False, True),
        ("cp312-cp312-win_amd64", "windows-x86_64", "3.12", False, True),
        ("cp312-cp312-win_arm64", "windows-x86_64", "3.12", False, False),
    ],
)
def test_tags_admit_a_target(
    tags: str, platform: str, python: str, free_threaded: bool, expected: bool
) -> None:
    target = LockfileTarget(Platform.parse(platform), Version(python), free_threaded)
    assert Wheel(f"x-1.0-{tags}.whl").fits(target) is expected


def test_unknown_target_is_admitted_by_every_wheel() -> None:
    assert Wheel("x-1.0-cp312-cp312-win_amd64.whl").fits(LockfileTarget())


def test_name_that_is_no_wheel_fits_nothing() -> None:
    assert not Wheel("x.whl").fits(LockfileTarget())


def test_addresses_are_decoded_and_other_files_left_out() -> None:
    urls = ["https://index.example/torch-2.7.1%2Bcu128-cp312-cp312-linux_x86_64.whl#sha256=0"]
    (wheel,) = wheels_of([*urls, "torch-2.7.1.tar.gz", ""])
    assert wheel.filename == "torch-2.7.1+cu128-cp312-cp312-linux_x86_64.whl"
    assert wheel.label == "cu128"
    assert wheel.url == urls[0]


LINUX = marker_variables(Platform.parse("linux-x86_64"), Version("3.12.4"))
WINDOWS = marker_variables(Platform.parse("windows-x86_64"), Version("3.12"))
MAC = marker_variables(Platform.parse("macos-aarch64"), Version("3.12"))


@pytest.mark.parametrize(
    ("marker", "linux", "windows", "mac"),
    [
        ("", True, True, True),
        ("sys_platform == 'linux'", True, False, False),
        ("platform_system == 'Windows'", False, True, False),
        ("platform_machine == 'x86_64'", True, False, False),
        ("platform_machine == 'AMD64'", False, True, False),
        ("platform_machine == 'arm64'", False, False, True),
        ("os_name == 'nt'", False, True, False),
        ("python_full_version >= '3.12.4'", True, False, False),
        ("implementation_name == 'cpython'", True, True, True),
    ],
)
def test_systems_spell_themselves(marker: str, linux: bool, windows: bool, mac: bool) -> None:
    assert [holds(marker, env) for env in (LINUX, WINDOWS, MAC)] == [linux, windows, mac]


def test_extras_and_groups_hold_only_where_asked_for() -> None:
    assert not holds("extra == 'gpu'", LINUX)
    assert holds("extra == 'gpu'", LINUX, extra="gpu")
    assert not holds("'gpu' in extras", LINUX)
    assert holds("'gpu' in extras", LINUX, extra="gpu")
    assert not holds("'gpu' in dependency_groups", LINUX)
    assert holds("'gpu' in dependency_groups", LINUX, groups=frozenset({"gpu"}))


def test_marker_that_cannot_be_decided_holds() -> None:
    assert holds("python_version > '" + "1" * 5000 + "'", LINUX)


def test_known_target_is_one_environment() -> None:
    target = LockfileTarget(Platform.parse("linux-x86_64"), Version("3.12"))
    assert len(environments_of(target, ">=3.9")) == 1


def test_unknown_python_is_the_oldest_and_newest_that_the_lock_admits() -> None:
    target = LockfileTarget(Platform.parse("linux-x86_64"))
    found = environments_of(target, ">=3.11,<3.13")
    assert [env["python_version"] for env in found] == ["3.11", "3.12"]
    assert [env["python_version"] for env in environments_of(target, "==3.12.*")] == ["3.12"]


def test_unknown_platform_is_every_common_one() -> None:
    found = environments_of(LockfileTarget(python=Version("3.12")), "")
    assert [(e["sys_platform"], e["platform_machine"]) for e in found] == [
        ("linux", "x86_64"),
        ("linux", "aarch64"),
        ("win32", "AMD64"),
        ("darwin", "arm64"),
    ]
