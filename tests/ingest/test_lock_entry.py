from __future__ import annotations

import pytest
from packaging.version import Version

from envguard.facts.machine import Platform
from envguard.ingest.lock_entry import Target, Wheel, wheels_of


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
    target = Target(Platform.parse(platform), Version(python), free_threaded)
    assert Wheel(f"x-1.0-{tags}.whl").fits(target) is expected


def test_unknown_target_is_admitted_by_every_wheel() -> None:
    assert Wheel("x-1.0-cp312-cp312-win_amd64.whl").fits(Target())


def test_name_that_is_no_wheel_fits_nothing() -> None:
    assert not Wheel("x.whl").fits(Target())


def test_addresses_are_decoded_and_other_files_left_out() -> None:
    urls = ["https://index.example/torch-2.7.1%2Bcu128-cp312-cp312-linux_x86_64.whl#sha256=0"]
    (wheel,) = wheels_of([*urls, "torch-2.7.1.tar.gz", ""])
    assert wheel.filename == "torch-2.7.1+cu128-cp312-cp312-linux_x86_64.whl"
    assert wheel.label == "cu128"
    assert wheel.url == urls[0]
