"""From a failed stage to the cause: which words and signals are evidence of what."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.facts.versions import CodeKind, CodeTarget, ComputeCapability, CudaVersion
from envguard.fit import CodeGrade, grade_code
from envguard.smoke.result import ErrorKind
from envguard.smoke.words import LOCK_HINT, Cause, find_words

if TYPE_CHECKING:
    from envguard.smoke.result import SmokeResult, StageError, StageResult

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
        or _by_kind(result, stage, error)
    )


def _words_of(result: SmokeResult, error: StageError) -> str:
    """What may speak: an exception for itself; a crash through what was printed before it."""
    text = f"{error.type}: {error.message}"
    if error.kind in {ErrorKind.SIGNAL, ErrorKind.EXIT}:
        text += "\n" + result.stderr.text[-_TEXT_LIMIT:]
    return text


def _by_words(result: SmokeResult, error: StageError) -> Cause | None:
    return find_words(_words_of(result, error))


def _missing_torch(result: SmokeResult, error: StageError) -> Cause | None:
    if error.module != "torch" or error.type != "ModuleNotFoundError":
        return None
    return Cause("torch-missing", f"install torch into {result.python}: {LOCK_HINT}")


def _old_driver(result: SmokeResult, error: StageError) -> Cause | None:
    match = _OLD_DRIVER.search(_words_of(result, error))
    if not match:
        return None
    remedy = f"update the NVIDIA driver, or install a build for an older CUDA: {LOCK_HINT}"
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
        f"install a build with code for compute capability {capability}: {LOCK_HINT}",
        f"The build holds {listed}; the GPU is of compute capability {capability}.",
    )


def _by_kind(result: SmokeResult, stage: StageResult, error: StageError) -> Cause:
    match error.kind:
        case ErrorKind.SIGNAL:
            return _by_signal(result, stage, error)
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
        case ErrorKind.EXCEPTION if error.module == stage.id:  # the stage imports its namesake
            return Cause("smoke-stage-failed", f"install {error.module} into {result.python}")
        case ErrorKind.EXCEPTION | ErrorKind.EXIT:
            return Cause("smoke-stage-failed")


def _by_signal(result: SmokeResult, stage: StageResult, error: StageError) -> Cause:
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
            return _killed(result)
        case _:
            return Cause("smoke-stage-failed")


def _killed(result: SmokeResult) -> Cause:
    """SIGKILL is host memory only with evidence: the cgroup counted a kill meanwhile."""
    if not result.oom.kills:
        return Cause(
            "killed-from-outside",
            "look at the kernel log for an out-of-memory kill",
            "Nothing inside a process raises SIGKILL: the kernel's memory killer, a batch system "
            "or a person did. The memory cgroup counted no kill meanwhile, as far as it is known.",
        )
    counted = f"The memory cgroup counted {result.oom.kills} out-of-memory kill(s) meanwhile"
    if result.oom.limit_hits:
        remedy = "raise the container's or job's memory limit"
        return Cause("container-memory-limit", remedy, f"{counted}, at its own limit.")
    return Cause("host-memory-exhausted", "give the machine or job more memory", f"{counted}.")


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
