"""Words in an error message or a crash's last lines that prove a cause by themselves."""

from __future__ import annotations

import re

from envguard.values import dataclass

LOCK_HINT = "`envguard lock torch` names a build that this machine serves"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a stage failed.

    Args:
        slug: The cause.
        remedy: What to do, for a person.
        detail: What the evidence says beyond the stage's own words.
    """

    slug: str
    remedy: str = ""
    detail: str = ""


# Most telling first.
_WORDS: tuple[tuple[str, Cause], ...] = (
    (
        r"forward compatibility was attempted on non supported HW",
        Cause(
            "compat-libcuda-in-image-on-geforce",
            "take the image's cuda-compat folder off the library path",
            "A forward-compatibility libcuda is in use; only data-center GPUs may use one.",
        ),
    ),
    (
        r"system not yet initialized",
        Cause(
            "fabric-manager-missing",
            "start nvidia-fabricmanager, of the same version as the driver",
            "CUDA error 802: the NVSwitch fabric of this machine is not set up.",
        ),
    ),
    (
        r"unsupported display driver / cuda driver combination|[Dd]river/library version mismatch",
        Cause(
            "nvml-kernel-userspace-mismatch",
            "reboot, or reload the kernel module, so that both halves are of one version",
            "The user-mode driver and the loaded kernel module are of different versions.",
        ),
    ),
    (
        r"Found no NVIDIA driver|No CUDA GPUs are available|no CUDA-capable device is detected",
        Cause(
            "no-gpu-visible",
            "look with `nvidia-smi` whether the driver lists a GPU, and at CUDA_VISIBLE_DEVICES; "
            "start a container with its GPUs (--gpus all)",
        ),
    ),
    (
        r"not compiled with CUDA|is a build without CUDA",
        Cause(
            "cpu-wheel-selected",
            f"install a CUDA build of torch: {LOCK_HINT}",
            "A CPU build never uses a GPU.",
        ),
    ),
    (
        r"__nvJitLink\w+, version libnvJitLink|undefined symbol: __nvJitLink",
        Cause(
            "ld-library-path-shadow",
            "take the folders of other CUDA toolkits out of LD_LIBRARY_PATH",
            "A libnvJitLink of another CUDA release stands before the one that torch brought.",
        ),
    ),
    (
        r"GLIBCXX_[\d.]+' not found|CXXABI_[\d.]+' not found",
        Cause(
            "libstdcxx-mismatch",
            "put a newer libstdc++ first (in conda: install libstdcxx-ng)",
            "The libstdc++ that is loaded first is older than a library needs.",
        ),
    ),
    (
        r"undefined symbol: nccl",
        Cause(
            "nccl-shadowed",
            "remove other NCCL libraries from LD_LIBRARY_PATH, or install the pinned nvidia-nccl",
            "An NCCL of another version stands before the one that torch needs.",
        ),
    ),
    (
        r"libcudart\.so\.[\d.]+: cannot open shared object file",
        Cause(
            "cudart-major-mismatch",
            "install packages built for the CUDA major of torch",
            "A library wants a CUDA runtime that this environment does not bring.",
        ),
    ),
    (
        r"undefined symbol: iJIT_",
        Cause("vendor-lib-bug", "pin mkl below 2024.1", "MKL 2024.1 dropped a symbol."),
    ),
    (
        r"undefined symbol: \w*(?:c10|at|torch|caffe2)\w*Ss",
        Cause(
            "abi-cxx11-flag",
            "install the package's build for the C++ ABI of this torch",
            "The missing symbol takes the old std::string.",
        ),
    ),
    (
        r"undefined symbol: \w*(?:c10|at6|torch|caffe2)",
        Cause(
            "abi-torch-version",
            "install the package's build for this torch version",
            "A library was built against another torch: it misses one of torch's symbols.",
        ),
    ),
    (
        r"MissingCUDAException|CUDA_HOME does not exist|CUDA_HOME environment variable is not set",
        Cause(
            "toolkit-missing",
            "install the CUDA toolkit of torch's CUDA major and set CUDA_HOME",
            "A package compiles for the GPU and finds no nvcc.",
        ),
    ),
    (
        r"Ninja is required to load C\+\+ extensions|Unable to JIT load the \w+ op due to ninja",
        Cause("ninja-missing", "install ninja into the environment"),
    ),
    (
        r"'torch\._six'|from 'torch\.distributed\.elastic\.agent\.server\.api'",
        Cause(
            "ds-too-old-for-torch",
            "upgrade DeepSpeed, or install the torch release that it was made for",
            "DeepSpeed imports a name that this torch no longer has.",
        ),
    ),
    (
        r"can't allocate memory|not enough memory: you tried to allocate|Cannot allocate memory"
        r"|std::bad_alloc|MemoryError|STATUS_NO_MEMORY",
        Cause(
            "host-memory-exhausted",
            "give the process more host memory (ulimit -v, cgroup, batch system)",
            "Host memory could not be allocated.",
        ),
    ),
    (
        r"CUDA out of memory|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY",
        Cause(
            "gpu-memory-taken",
            "look with `nvidia-smi` who holds the GPU's memory",
            "The smoke test needs less than 1 GiB, so others hold nearly all of the GPU.",
        ),
    ),
    (
        r"busy or unavailable|all CUDA-capable devices are busy",
        Cause(
            "gpu-busy",
            "end the other process, or set the compute mode to default",
            "Another process holds the GPU exclusively, or its licence is missing (vGPU).",
        ),
    ),
)


def find_words(text: str) -> Cause | None:
    """The cause of the first pattern that the text holds, or None."""
    return next((cause for pattern, cause in _WORDS if re.search(pattern, text)), None)
