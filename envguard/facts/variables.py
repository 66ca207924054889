"""Environment variables that change what CUDA, torch, NCCL or the loader does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.redaction import clean_variable, is_secret_name

if TYPE_CHECKING:
    from collections.abc import Mapping

# An allow list: a facts document travels, and the environment holds secrets.
_NAMES = frozenset(
    {
        "CONDA_DEFAULT_ENV",
        "CONDA_OVERRIDE_CUDA",
        "CONDA_OVERRIDE_CUDA_ARCH",
        "CONDA_PREFIX",
        "CUDA_CACHE_DISABLE",
        "CUDA_CACHE_MAXSIZE",
        "CUDA_CACHE_PATH",
        "CUDA_DEVICE_ORDER",
        "CUDA_DISABLE_PTX_JIT",
        "CUDA_FORCE_PTX_JIT",
        "CUDA_HOME",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_MODULE_LOADING",
        "CUDA_MPS_PIPE_DIRECTORY",
        "CUDA_PATH",
        "CUDA_VISIBLE_DEVICES",
        "CC",
        "CXX",
        "LD_AUDIT",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "LOCAL_WORLD_SIZE",
        "MALLOC_ARENA_MAX",
        "MAX_JOBS",
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA_DISABLE_REQUIRE",
        "NVIDIA_REQUIRE_CUDA",
        "NVIDIA_VISIBLE_DEVICES",
        "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION",
        "NV_VARIANT_PROVIDER_FORCE_SM_ARCH",
        "OMP_NUM_THREADS",
        "PIP_NO_BUILD_ISOLATION",
        "PYTHONHOME",
        "PYTHONNOUSERSITE",
        "PYTHONPATH",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_NVML_BASED_CUDA_CHECK",
        "TORCH_CUDA_ARCH_LIST",
        "TORCH_EXTENSIONS_DIR",
        "UV_CUDA_DRIVER_VERSION",
        "UV_NO_BUILD_ISOLATION",
        "UV_TORCH_BACKEND",
        "VIRTUAL_ENV",
        "WORLD_SIZE",
    }
)
_PREFIXES = ("DS_", "NCCL_", "SLURM_MEM_", "TORCH_NCCL_")
_SLURM = frozenset(
    {
        "SLURM_CPUS_PER_TASK",
        "SLURM_GPUS",
        "SLURM_GPUS_ON_NODE",
        "SLURM_JOB_GPUS",
        "SLURM_JOB_ID",
        "SLURM_JOB_NUM_NODES",
        "SLURM_NNODES",
        "SLURM_NTASKS",
        "SLURM_NTASKS_PER_NODE",
        "SLURM_STEP_GPUS",
        "SLURM_TASKS_PER_NODE",
    }
)


def recorded_variables(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The variables worth recording, sorted by name; everything else is left alone."""
    return tuple(
        sorted((k, clean_variable(k, printable(v))) for k, v in environ.items() if _is_recorded(k))
    )


def _is_recorded(name: str) -> bool:
    if name in _NAMES or name in _SLURM:
        return True
    return name.startswith(_PREFIXES) and not is_secret_name(name)


def printable(text: str) -> str:
    """Text that can be encoded: bytes that were not UTF-8 become replacement characters."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
