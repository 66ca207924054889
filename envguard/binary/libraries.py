"""What a library's file name tells: the CUDA release, torch's own parts, the driver's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# auditwheel and the torch builds put a hash into the names of libraries that they bundle:
# libcudart-d0da41ae.so.11.0, libcudart.faf08d9a.so.13.
_NAME = re.compile(
    r"lib(?P<stem>[A-Za-z0-9_+]+?)(?:[-.][0-9a-f]{8})?\.so(?:\.(?P<version>[0-9.]+))?"
)
_SAME_AS_CUDA = frozenset({"cudart", "cublas", "cublasLt", "nvrtc", "nvJitLink", "nvblas", "nppc"})
# Libraries that count for themselves, where a number belongs to one CUDA release only.
_OWN_COUNT = {"cufft": {"10": 11, "11": 12, "12": 13}, "cusparse": {"11": 11}, "cupti": {"13": 13}}
_TORCH_STEMS = re.compile(r"torch|torch_[a-z_]+|c10|c10_[a-z]+|shm|caffe2_[a-z]+")
_DRIVER_STEMS = frozenset({"cuda", "nvidia-ml", "nvcuvid", "nvidia-encode"})
_CUDA_STEMS = _SAME_AS_CUDA | frozenset(
    {"cufft", "cusparse", "cusolver", "curand", "cudnn", "nccl", "cupti", "cufile", "nvtx3interop"}
)
_PTX_MAJOR = {6: 10, 7: 11, 8: 12, 9: 13}  # PTX language major -> CUDA major


def tell_cuda_major(
    own_name: str, needed: Iterable[str], ptx_version: tuple[int, int] | None = None
) -> int | None:
    """The CUDA release that a file was built for.

    Args:
        own_name: Its soname or file name.
        needed: The libraries that it needs.
        ptx_version: Newest PTX language version in it, which stands in where the CUDA runtime
            is linked into the file. NVIDIA compiles some of its own libraries with an older
            release than the one that they belong to, so it says nothing about those.

    Returns:
        None when nothing tells.
    """
    for name in (own_name, *needed):
        match = _NAME.fullmatch(name)
        if match is None or not match["version"]:
            continue
        major = match["version"].partition(".")[0]
        if match["stem"] in _SAME_AS_CUDA:
            return int(major)
        if major in _OWN_COUNT.get(match["stem"], {}):
            return _OWN_COUNT[match["stem"]][major]
    if ptx_version is None or is_cuda_library(own_name):
        return None
    return _PTX_MAJOR.get(ptx_version[0])


def _stem(name: str) -> str:
    match = _NAME.fullmatch(name)
    return match["stem"] if match else ""


def is_torch_library(name: str) -> bool:
    """Whether a library name is one of libtorch's: ``libc10.so``, ``libtorch_cuda.so``."""
    return _TORCH_STEMS.fullmatch(_stem(name)) is not None


def is_cuda_library(name: str) -> bool:
    """Whether a library name is one of the CUDA toolkit, cuDNN or NCCL."""
    return _stem(name) in _CUDA_STEMS


def is_driver_library(name: str) -> bool:
    """Whether the NVIDIA driver, not a package, supplies this library: ``libcuda.so.1``."""
    return name.removeprefix("lib").partition(".so")[0] in _DRIVER_STEMS
