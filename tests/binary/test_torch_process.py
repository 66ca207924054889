from __future__ import annotations

import pytest

from envguard.binary.torch_process import preloads_of

ALL = """
def _preload_cuda_deps(err=None, required=True):
    cuda_libs = {
        "cublas": "libcublas.so.*[0-9]",
        "nvjitlink": "libnvJitLink.so.*[0-9]",
    }

def _load_global_deps():
    try:
        ctypes.CDLL(global_deps_lib_path, mode=ctypes.RTLD_GLOBAL)
        try:
            _preload_cuda_deps(required=False)
        except Exception:
            pass
    except OSError as err:
        _preload_cuda_deps(err)
"""
TWO = """
def _load_global_deps():
    try:
        ctypes.CDLL(global_deps_lib_path, mode=ctypes.RTLD_GLOBAL)
        _preload_cuda_deps("cuda_nvrtc", "libnvrtc.so.*[0-9]")
        _preload_cuda_deps("nvjitlink", "libnvJitLink.so.*[0-9]")
    except OSError as err:
        _preload_cuda_deps("cublas", "libcublas.so.*[0-9]")
"""
NONE = """
def _load_global_deps():
    try:
        ctypes.CDLL(global_deps_lib_path, mode=ctypes.RTLD_GLOBAL)
    except OSError as err:
        cuda_libs = {"cublas": "libcublas.so.*[0-9]"}
        for lib_folder, lib_name in cuda_libs.items():
            _preload_cuda_deps(lib_folder, lib_name)
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (ALL, ("libcublas", "libnvJitLink")),
        (TWO, ("libnvrtc", "libnvJitLink")),
        (NONE, ()),
        ("", ()),
        ("def _load_global_deps(): pass", ()),
    ],
)
def test_what_a_release_of_torch_opens_before_its_own_libraries(
    text: str, names: tuple[str, ...]
) -> None:
    assert preloads_of(text) == names
