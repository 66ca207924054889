"""Which CUDA libraries the loader would find first, and whether an image brings libcuda."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from envguard.facts.machine import ContainerKind, Reading
from envguard.probe.loader_path import (
    find_library_path_files,
    mount_point_of,
    read_libcuda_mount,
)
from envguard.probe.probe_options import ProbeOptions

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stubs.machine import StubMachine

MOUNTS = """\
1200 1100 0:95 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/x
1201 1200 0:98 / /proc rw,nosuid - proc proc rw
1300 1200 8:1 /a /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15 ro - ext4 /dev/sda1 rw
1301 1200 8:1 /b /usr/local/nvidia ro - ext4 /dev/sda1 rw
1302 1200 8:1 /c /mnt/with\\040space ro - ext4 /dev/sda1 rw
"""


def test_cuda_libraries_on_the_library_path_are_found(tmp_path: Path) -> None:
    first, second = tmp_path / "cuda" / "lib64", tmp_path / "other"
    for folder, names in (
        (first, ("libnvJitLink.so.12.1.105", "libcudart.so", "libcudnn_ops_infer.so.8", "a.txt")),
        (second, ("libnccl.so.2.18.3", "libcuda.so.1", "libGL.so.1", "libcudart_static.a")),
    ):
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).touch()
    path = f"{first}/:{tmp_path / 'missing'}::{second}:{first}"
    assert find_library_path_files(ProbeOptions(environ={"LD_LIBRARY_PATH": path})) == (
        f"{first}/libcudart.so",
        f"{first}/libcudnn_ops_infer.so.8",
        f"{first}/libnvJitLink.so.12.1.105",
        f"{second}/libnccl.so.2.18.3",
    )


def test_without_a_library_path_nothing_is_found() -> None:
    assert find_library_path_files(ProbeOptions(environ={})) == ()


@pytest.mark.parametrize(
    ("path", "point"),
    [
        (
            "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15",
            "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15",
        ),
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08", "/"),
        ("/usr/local/nvidia/lib64/libcuda.so.1", "/usr/local/nvidia"),
        ("/usr/local/nvidia-old/libcuda.so.1", "/"),
        ("/mnt/with space/libcuda.so.1", "/mnt/with space"),
    ],
)
def test_the_innermost_mount_point_is_found(path: str, point: str) -> None:
    assert mount_point_of(path, MOUNTS) == point


def test_no_mounts_no_answer() -> None:
    assert mount_point_of("/usr/lib/libcuda.so.1", "") is None


def test_an_image_that_brings_libcuda_is_told(stub_machine: StubMachine) -> None:
    stub_machine.write("/proc/self/mountinfo", MOUNTS)
    options = stub_machine.options()
    path = "/usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08"
    readings = (Reading("driver.libcuda", path, "libcuda"),)
    found = read_libcuda_mount(options, ContainerKind.DOCKER, readings)
    assert found == (Reading("driver.libcuda_mount", "/", "mountinfo"),)
    assert read_libcuda_mount(options, ContainerKind.NONE, readings) == ()
    assert read_libcuda_mount(options, ContainerKind.DOCKER, ()) == ()
