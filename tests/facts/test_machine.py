"""Machines as values: platforms, limits, selected GPUs, variables."""

from __future__ import annotations

import pytest

from envguard.facts.machine import Gpu, Limits, Machine, OperatingSystem, Platform


@pytest.mark.parametrize(
    ("text", "system", "arch"),
    [
        ("linux-x86_64", OperatingSystem.LINUX, "x86_64"),
        ("Linux-AMD64", OperatingSystem.LINUX, "x86_64"),
        ("linux-aarch64", OperatingSystem.LINUX, "aarch64"),
        ("windows-amd64", OperatingSystem.WINDOWS, "x86_64"),
        ("win32-amd64", OperatingSystem.WINDOWS, "x86_64"),
        ("darwin-arm64", OperatingSystem.MACOS, "aarch64"),
    ],
)
def test_platforms_have_one_spelling(text: str, system: OperatingSystem, arch: str) -> None:
    platform = Platform.parse(text)
    assert (platform.system, platform.arch) == (system, arch)
    assert str(platform) == f"{system.value}-{arch}"
    assert Platform.parse(str(platform)) == platform


@pytest.mark.parametrize("text", ["", "linux", "linux-ppc64le", "freebsd-x86_64", "x86_64-linux"])
def test_what_torch_is_not_built_for_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a platform such as linux-x86_64"):
        Platform.parse(text)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(), None),
        (Limits(ram_bytes=100), 100),
        (Limits(ram_bytes=100, cgroup_bytes=60), 60),
        (Limits(ram_bytes=100, cgroup_bytes=200), 100),
        (Limits(ram_bytes=100, cgroup_bytes=60, address_space_bytes=50), 50),
        (Limits(shm_bytes=1, memlock_bytes=1), None),
    ],
)
def test_host_memory_is_the_tightest_limit(limits: Limits, expected: int | None) -> None:
    assert limits.host_memory_bytes == expected


def test_gpus_are_selected_unless_known_to_be_hidden() -> None:
    gpus = (Gpu(0, is_visible=True), Gpu(1, is_visible=False), Gpu(2, is_visible=None))
    assert [gpu.index for gpu in Machine(gpus=gpus).selected_gpus] == [0, 2]
    assert Machine(gpus=None).selected_gpus == ()


def test_a_recorded_variable_is_found_also_when_empty() -> None:
    machine = Machine(variables=(("CUDA_VISIBLE_DEVICES", ""),))
    assert machine.variable("CUDA_VISIBLE_DEVICES") == ""
    assert machine.variable("LD_PRELOAD") is None
