"""From a failed stage to the cause: which words and signals are evidence of what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.facts.versions import CodeKind, CodeTarget, ComputeCapability, CudaVersion
from envguard.matrix.fit import CodeGrade, grade_code
from envguard.smoke.result import ErrorKind

if TYPE_CHECKING:
    from envguard.smoke.result import SmokeResult, StageError, StageResult

_LOCK_HINT = "`envguard lock torch` names a build that this machine serves"


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


# Words that prove a cause by themselves, most telling first.
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
            "install the NVIDIA driver, or start the container with its GPUs (--gpus all); "
            "look at CUDA_VISIBLE_DEVICES",
        ),
    ),
    (
        r"not compiled with CUDA|is a build without CUDA",
        Cause(
            "cpu-wheel-selected",
            f"install a CUDA build of torch: {_LOCK_HINT}",
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
        r"libcudart\.so\.\d+: cannot open shared object file",
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
_OLD_DRIVER = re.compile(
    r"driver on your system is too old(?: \(found version (\d{4,6})\))?"
    r"|driver version is insufficient for CUDA runtime"
)
_NO_KERNEL = re.compile(r"no kernel image is available|invalid device function")
_TEXT_LIMIT = 20_000


def find_cause(result: SmokeResult, stage: StageResult) -> Cause:
    """Name the cause of a failed stage.

    Returns:
        A cause of design section 8 where the evidence is clear, else one that only says how
        the stage failed.
    """
    error = stage.error
    if error is None:
        return Cause("smoke-stage-failed")
    return (
        _missing_torch(result, error)
        or _old_driver(result, error)
        or _missing_code(result, error)
        or _by_words(result, error)
        or _by_kind(stage, error)
    )


def _words_of(result: SmokeResult, error: StageError) -> str:
    """What may speak: an exception for itself; a crash through what was printed before it."""
    text = f"{error.type}: {error.message}"
    if error.kind in {ErrorKind.SIGNAL, ErrorKind.EXIT}:
        text += "\n" + result.stderr.text[-_TEXT_LIMIT:]
    return text


def _by_words(result: SmokeResult, error: StageError) -> Cause | None:
    text = _words_of(result, error)
    return next((cause for pattern, cause in _WORDS if re.search(pattern, text)), None)


def _missing_torch(result: SmokeResult, error: StageError) -> Cause | None:
    if error.module != "torch" or error.type != "ModuleNotFoundError":
        return None
    return Cause("torch-missing", f"install torch into {result.python}: {_LOCK_HINT}")


def _old_driver(result: SmokeResult, error: StageError) -> Cause | None:
    match = _OLD_DRIVER.search(_words_of(result, error))
    if not match:
        return None
    remedy = f"update the NVIDIA driver, or install a build for an older CUDA: {_LOCK_HINT}"
    runtime = parse_cuda(result.detail("import", "cuda"))
    if runtime is None or match[1] is None:
        return Cause("driver-too-old-for-cuda", remedy)
    api = CudaVersion.from_api(int(match[1]))
    detail = f"The driver supports CUDA {api}; this torch was built for CUDA {runtime}."
    is_other_major = api.major < runtime.major
    slug = "driver-too-old-for-cuda-major" if is_other_major else "driver-too-old-for-cuda"
    return Cause(slug, remedy, detail)


def _missing_code(result: SmokeResult, error: StageError) -> Cause | None:
    """Only when capability and code targets are both known do the words name a cause."""
    if not _NO_KERNEL.search(_words_of(result, error)):
        return None
    capability = parse_capability(result.detail("cuda-init", "capability"))
    targets = parse_targets(result)
    if capability is None or not targets:
        return None
    runtime = parse_cuda(result.detail("import", "cuda"))
    fit = grade_code(targets, capability, runtime, can_jit=False)
    listed = " ".join(map(str, targets))
    if fit.grade.runs:
        detail = (
            f"torch itself has {fit.target} for this GPU, so the code of another package lacks."
        )
        return Cause("extension-lacks-code-for-gpu", "rebuild or replace that package", detail)
    is_old = fit.grade is CodeGrade.NONE and all(t.capability > capability for t in targets)
    return Cause(
        "arch-missing-old-gpu" if is_old else "arch-missing-new-gpu",
        f"install a build with code for compute capability {capability}: {_LOCK_HINT}",
        f"The build holds {listed}; the GPU is of compute capability {capability}.",
    )


def _by_kind(stage: StageResult, error: StageError) -> Cause:
    match error.kind:
        case ErrorKind.SIGNAL:
            return _by_signal(stage, error)
        case ErrorKind.HANG:
            return Cause("smoke-hang", "look at the frames: that is where it waits")
        case ErrorKind.NUMERICS:
            return Cause(
                "smoke-wrong-numerics",
                "run it again; if the numbers are wrong again, suspect a library built for other "
                "hardware, or the hardware itself",
            )
        case ErrorKind.DEVICE:
            return Cause("device-not-available", "name a device that torch sees, or `auto`")
        case ErrorKind.EXCEPTION | ErrorKind.EXIT:
            return Cause("smoke-stage-failed")


def _by_signal(stage: StageResult, error: StageError) -> Cause:
    if stage.id == "cuda-init" and error.type not in {"SIGKILL", "SIGTERM"}:
        return Cause(
            "libcuda-crash",
            "reinstall the driver; look for a second libcuda on the library path",
            "The process died inside the driver's start.",
        )
    match error.type:
        case "SIGSEGV" | "SIGBUS" | "STATUS_ACCESS_VIOLATION":
            return Cause(
                "unknown-segfault", "the frames say where; `envguard check` compares builds"
            )
        case "SIGILL" | "STATUS_ILLEGAL_INSTRUCTION":
            return Cause(
                "cpu-lacks-instructions",
                "use a build for this processor, or a newer processor",
                "A library used an instruction that this processor (or emulator) does not have.",
            )
        case "SIGKILL":
            return Cause(
                "killed-from-outside",
                "look at the kernel log and the cgroup's memory.events for an out-of-memory kill",
                "Nothing inside a process raises SIGKILL: the kernel's memory killer, a batch "
                "system or a person did.",
            )
        case _:
            return Cause("smoke-stage-failed")


def parse_cuda(text: str | None) -> CudaVersion | None:
    """A CUDA version that torch states, or None."""
    try:
        return CudaVersion.parse(text or "")
    except ValueError:
        return None


def parse_capability(text: str | None) -> ComputeCapability | None:
    """A compute capability that torch states, or None."""
    try:
        return ComputeCapability.parse(text or "")
    except ValueError:
        return None


def parse_targets(result: SmokeResult) -> tuple[CodeTarget, ...]:
    """The code targets that torch states (``torch.cuda.get_arch_list``); empty when unknown."""
    stage = result.stage("cuda-init")
    listed = stage.details.get("targets") if stage else None
    targets = []
    for text in listed if isinstance(listed, list) else ():
        try:
            targets.append(CodeTarget.parse(str(text)))
        except ValueError:
            continue  # another vendor's target
    return tuple(sorted(targets, key=lambda t: (t.kind is CodeKind.PTX, t.capability, t.suffix)))
