"""None"""

from __future__ import annotations

import pytest

from envguard.binary.library import (
    is_cuda_library,
    is_driver_library,
    is_torch_library,
    tell_cuda_major,
)


@pytest.mark.parametrize(
    ("own", "needed", "ptx", "major"),
    [
        ("x.so", ["libc.so.6", "libcudart.so.12"], None, 12),
        ("x.so", ["libcudart.so.11.0"], None, 11),
        ("x.so", ["libcudart-d0da41ae.so.11.0"], None, 11),
        ("x.so", ["libcudart.faf08d9a.so.13"], (8, 0), 13),
        ("libcublasLt.so.13", [], None, 13),
        ("x.so", ["libcufft.so.11"], None, 12),
        ("x.so", ["libcusparse.so.12"], None, None),
        ("x.so", ["libnvrtc.so.11.2"], None, 11),
        ("x.so", ["libtorch_cuda.so"], (8, 4), 12),
        ("x.so", ["libtorch_cuda.so"], None, None),
        ("x.so", [], (9, 3), 13),
        ("x.so", [], (42, 0), None),
        ("libcufile.so.0", [], (7, 1), None),
        ("x.so", ["libcudart.so"], None, None),
    ],
)
def test_the_cuda_release_of_a_file(
    own: str, needed: list[str], ptx: tuple[int, int] | None, major: int | None
) -> None:
    assert tell_cuda_major(own, needed, ptx) == major


@pytest.mark.parametrize(
    "name", ["libc10.so", "libc10_cuda.so", "libtorch.so", "libtorch_cpu.so", "libtorch_python.so"]
)
def test_libraries_of_torch(name: str) -> None:
    assert is_torch_library(name)
    assert not is_cuda_library(name)


@pytest.mark.parametrize(
    "name", ["libtorchvision.so", "libtorchcodec_core4.so", "libc.so.6", "c10"]
)
def test_libraries_beside_torch(name: str) -> None:
    assert not is_torch_library(name)


@pytest.mark.parametrize("name", ["libcudart.so.12", "libnccl.so.2", "libcudnn.so.9"])
def test_libraries_of_cuda(name: str) -> None:
    assert is_cuda_library(name)
    assert not is_driver_library(name)


@pytest.mark.parametrize("name", ["libcuda.so.1", "libnvidia-ml.so.1", "libcuda.so"])
def test_libraries_of_the_driver(name: str) -> None:
    assert is_driver_library(name)
    assert not is_cuda_library(name)
