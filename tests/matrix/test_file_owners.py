from __future__ import annotations

import pytest

from envguard.facts.versions import CudaVersion
from envguard.matrix.file_owners import LibraryKind, OwnerRole
from envguard.matrix.loader import Matrix

OWNERS = Matrix.load().owners


@pytest.mark.parametrize(
    ("file", "of", "cudas"),
    [
        ("libcufft.so.11", "cuFFT", ("12",)),
        ("libcufft.so.10", "cuFFT", ("10", "11")),
        ("/usr/local/cuda/lib64/libcudart.so.11.0", "the CUDA runtime", ("11",)),
        ("libcusparse.so.12", "cuSPARSE", ("12", "13")),
        ("libcusolver.so.11", "cuSOLVER", ("11", "12")),
        ("libcurand.so.10", "cuRAND", ("10", "11", "12", "13")),
        ("libnvrtc.so.11.2", "NVRTC", ("11",)),
        ("libnppicc.so.12", "NPP", ("12",)),
        ("cublas64_12.dll", "cuBLAS", ("12",)),
        ("cudart64_110.dll", "the CUDA runtime", ("11",)),
        ("nvrtc64_120_0.dll", "NVRTC", ("12",)),
    ],
)
def test_the_number_of_a_library_tells_its_cuda(file: str, of: str, cudas: tuple[str, ...]) -> None:
    found = OWNERS.library(file)
    assert found is not None
    assert (found.row.of, found.cudas) == (of, cudas)


def test_a_library_may_be_of_several_cudas() -> None:
    found = OWNERS.library("libcusparse.so.12")
    assert found is not None
    majors = [major for major in (11, 12, 13) if found.has_major(CudaVersion(major, 0))]
    assert majors == [12, 13]
    assert (found.wheel(12), found.wheel(13)) == ("nvidia-cusparse-cu12", "nvidia-cusparse")


@pytest.mark.parametrize(
    ("file", "of", "release"),
    [
        ("libcudnn_ops_infer.so.8", "cuDNN", "8"),
        ("libcudnn_cnn.so.9.1.0", "cuDNN", "9"),
        ("cudnn_ops64_9.dll", "cuDNN", "9"),
        ("libnvinfer.so.10", "TensorRT", "10"),
    ],
)
def test_other_libraries_are_numbered_by_themselves(file: str, of: str, release: str) -> None:
    found = OWNERS.library(file)
    assert found is not None
    assert (found.row.of, found.release) == (of, release)


def test_what_the_table_does_not_know_is_not_guessed() -> None:
    assert OWNERS.library("libsomething.so.3") is None
    assert OWNERS.library("train.py") is None
    assert OWNERS.package_of_file("/srv/train.py") == ""


@pytest.mark.parametrize(
    ("path", "package"),
    [
        ("/env/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311.so", "flash-attn"),
        ("/env/site-packages/flash_attn/flash_attn_interface.py", "flash-attn"),
        ("/env/site-packages/somebody_s_kernels/_C.so", "somebody-s-kernels"),
        ("selective_scan_cuda.cpython-310-x86_64-linux-gnu.so", "mamba-ssm"),
        ("/env/site-packages/torch/lib/libtorch_cuda.so", "torch"),
        ("/env/site-packages/nvidia/nccl/lib/libnccl.so.2", "nvidia-nccl"),
        ("C:\\v\\Lib\\site-packages\\cv2\\cv2.pyd", "opencv-python"),
        ("/home/u/.cache/torch_extensions/py311_cu124/fused_adam/fused_adam.so", "deepspeed"),
    ],
)
def test_a_file_has_an_owner(path: str, package: str) -> None:
    assert OWNERS.package_of_file(path) == package


@pytest.mark.parametrize(
    ("symbol", "of", "kind"),
    [
        ("cublasLtGetEnvironmentMode", "cuBLAS", LibraryKind.CUDA),
        ("__nvJitLinkComplete_12_4", "nvJitLink", LibraryKind.CUDA),
        ("ncclCommWindowRegister", "NCCL", LibraryKind.NVIDIA),
        ("cusparseLtMatmul", "cuSPARSELt", LibraryKind.NVIDIA),
        ("cusparseSpMM", "cuSPARSE", LibraryKind.CUDA),
    ],
)
def test_a_function_is_of_a_library(symbol: str, of: str, kind: LibraryKind) -> None:
    row = OWNERS.library_of_symbol(symbol)
    assert row is not None
    assert (row.of, row.kind) == (of, kind)


def test_torch_and_the_system_are_not_foreign() -> None:
    roles = [
        row.role if (row := OWNERS.owner_of_file(name)) else None
        for name in ("libtorch_cpu.so", "libc.so.6", "libpython3.11.so.1.0", "libcuda.so.1")
    ]
    assert roles == [OwnerRole.TORCH, OwnerRole.SYSTEM, OwnerRole.PYTHON, OwnerRole.DRIVER]
