"""The driver, NVML, containers, kinds of devices: what their words mean beside the facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.case import worked_after
from envguard.crash.cause_findings import make_finding
from envguard.facts.findings import Evidence, Finding, Status
from envguard.facts.machine import OperatingSystem
from envguard.facts.sentences import Text, join_sentences, say
from envguard.facts.versions import CudaVersion
from envguard.fit import driver_system
from envguard.matrix.gpus import parse_gpu_name
from envguard.matrix.rows import MarketSegment, minimum_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case


_NO_DEVICE = (
    "no-driver",
    "no-device-100",
    "nvidia-smi-failed",
    "cuda-name-none",
    "smi-no-devices",
    "nvml-driver-absent",
)


_COMPATIBLE_SINCE = 11  # CUDA majors with minor-version compatibility


def check_driver_age(case: Case) -> Iterator[Finding]:
    """The driver is too old: in torch's words with a number, or the runtime's."""
    hits = case.matches("driver-too-old", "insufficient-driver", "cuda-name-insufficient")
    if not hits:
        return
    found = case.log.first("driver-too-old")
    number = found.number("v") if found else None
    runtime = _runtime(case)
    api = CudaVersion.from_api(number) if number else case.facts.machine.driver.cuda
    crosses = api is not None and (runtime.major > api.major if runtime else False)
    # From CUDA 11 on every driver of a major starts all of it, so torch's refusal means a major.
    is_compatible = api is None or api.major >= _COMPATIBLE_SINCE
    is_major = crosses or (runtime is None and found is not None and is_compatible)
    outcome = "driver-too-old-for-cuda-major" if is_major else "driver-too-old-for-cuda"
    yield make_finding(case, outcome, Status.FAIL, hits, detail=_what_it_serves(case, api, runtime))


def _what_it_serves(case: Case, api: CudaVersion | None, runtime: CudaVersion | None) -> Text:
    served = (
        say("The driver serves CUDA {cuda}", cuda=api)
        if api
        else say("What the driver serves is not stated")
    )
    needs = say("; the build needs CUDA {cuda}", cuda=runtime) if runtime is not None else ""
    return join_sentences(
        say("{served}{needs}.", served=served, needs=needs), _what_would_do(case, api, runtime)
    )


def _what_would_do(case: Case, api: CudaVersion | None, runtime: CudaVersion | None) -> str:
    """The drivers that serve the build's CUDA; those of the next majors where it is not known."""
    system = driver_system(case.facts.machine.host)
    newer = [major for major in _MAJORS if api is None or major > api.major]
    said = [
        say(
            "CUDA {major} needs driver {floor} or newer{also}.",
            major=major,
            floor=floor,
            also=""
            if system is OperatingSystem.WINDOWS
            else say(" (on Windows {floor})", floor=minimum_for(row, OperatingSystem.WINDOWS)),
        )
        for major in ([runtime.major] if runtime is not None else newer)
        if (row := case.matrix.drivers.major_floor(major)) is not None
        and (floor := minimum_for(row, system)) is not None
    ]
    own = ""
    if api is not None and api.major >= _COMPATIBLE_SINCE:
        own = say("For this driver take a build of torch for CUDA {major}.x.", major=api.major)
    host = "In a container it is the host's driver that counts."
    return join_sentences(*said, own, host)


_MAJORS = (12, 13)


def _runtime(case: Case) -> CudaVersion | None:
    torch = case.facts.environment.torch if case.facts.environment else None
    return torch.cuda if torch is not None else None


def check_no_gpu(case: Case) -> Iterator[Finding]:
    """No driver, or no device: unless something else says why."""
    if case.log.has("system-not-ready-802", "forward-compat-804", "nvml-mismatch", *REFUSED):
        return
    hits = case.matches("no-device-100", "cuda-name-none")
    if hits and _is_shadowed(case):
        yield make_finding(
            case, "wsl-driver-shadow", Status.FAIL, (*hits, *case.matches("wsl-words"))
        )
        return
    hits = case.matches(*_NO_DEVICE)
    if hits and not (case.log.has("nvml-missing") and is_board(case)):
        yield make_finding(
            case, "no-gpu-visible", Status.FAIL, (*hits, *case.matches("hidden-gpus"))
        )


def _is_shadowed(case: Case) -> bool:
    """A libcuda was loaded under WSL and found no GPU, and nothing hides the GPUs."""
    is_wsl = case.log.has("wsl-words") or case.facts.machine.host.is_wsl
    listed = case.facts.machine.variable("CUDA_VISIBLE_DEVICES")
    is_hidden = case.log.has("hidden-gpus") or (listed is not None and listed in {"", "-1"})
    return bool(is_wsl) and not is_hidden


# What the kernel says of a GPU that it leaves alone explains what programs say later.
REFUSED = (
    "kernel-legacy-driver",
    "kernel-open-module-needed",
    "kernel-closed-module-needed",
    "kernel-gpu-not-listed",
    "kernel-other-driver",
)


_NVML = ("nvml-missing", "nvml-not-started", "nvml-not-supported")


def is_board(case: Case) -> bool:
    """Whether it ran on an NVIDIA Tegra board: by the log, the host or the GPUs."""
    names = [gpu.name for gpu in case.facts.machine.selected_gpus if gpu.name]
    models = [case.matrix.gpus.find(name) for name in names]
    by_name = bool(models) and all(
        found and all(model.segment is MarketSegment.JETSON for model in found) for found in models
    )
    return by_name or case.log.has("jetson-words") or bool(case.facts.machine.host.jetson)


def is_virtual(case: Case) -> bool:
    """Whether the GPU is a vGPU: by the log, by its driver or by its name."""
    gpus = case.facts.machine.selected_gpus
    named = any(gpu.name and parse_gpu_name(gpu.name).is_virtual for gpu in gpus)
    stated = any(gpu.is_virtual for gpu in gpus)
    return named or stated or case.log.has("vgpu-words", "vgpu-profile")


def check_nvml_on_boards(case: Case) -> Iterator[Finding]:
    """NVML asked for on a board: why it failed where it did, else a remark."""
    hits = case.matches(*_NVML)
    if not hits or not is_board(case):
        return
    lines = (*case.log.all("python-exception"), *(hit for hit in hits if "NVMLError" in hit.text))
    raised = any("NVML" in hit.text for hit in lines)
    did_fail = raised or case.exit_code not in {None, 0}
    status = Status.FAIL if did_fail and not worked_after(case, hits[-1]) else Status.WARN
    yield make_finding(case, "nvml-missing-tegra", status, (*hits, *case.matches("jetson-words")))


def check_not_supported(case: Case) -> Iterator[Finding]:
    """CUDA error 801: a virtual GPU, or a driver older than the toolkit."""
    hits = case.matches("operation-not-supported")
    if not hits:
        return
    if is_virtual(case):
        also = case.matches("vgpu-profile", "vgpu-words", "expandable-segments")
        yield make_finding(case, "vgpu-feature-gap", Status.FAIL, (*hits, *also))
        return
    gap = _toolkit_gap(case)
    if gap is not None:
        api, nvcc = gap
        more = (
            Evidence("driver.cuda", str(api), "the subject"),
            Evidence("toolkit.nvcc", str(nvcc), "the subject"),
        )
        said = say("The driver is of CUDA {cuda}, the toolkit of CUDA {nvcc}.", cuda=api, nvcc=nvcc)
        yield make_finding(
            case, "minor-compat-feature-gap", Status.FAIL, hits, more=more, detail=said
        )


def _toolkit_gap(case: Case) -> tuple[CudaVersion, CudaVersion] | None:
    """The CUDA of the driver and of a newer toolkit, where no build's own CUDA is known."""
    machine, environment = case.facts.machine, case.facts.environment
    if environment is not None and environment.torch is not None and environment.torch.cuda:
        return None  # the checks compare it with the driver
    api, version = machine.driver.cuda, machine.driver.version
    if api is None and version is not None:
        api = case.matrix.drivers.cuda_of_driver(version, driver_system(machine.host))
    nvcc = machine.toolkit.nvcc
    if api is None or nvcc is None or nvcc <= api or nvcc.major != api.major:
        return None
    return api, nvcc


def check_ordinal(case: Case) -> Iterator[Finding]:
    """A device number beyond the visible GPUs."""
    hits = case.matches("invalid-ordinal")
    if hits:
        yield make_finding(
            case, "invalid-device-ordinal", Status.FAIL, (*hits, *case.matches("ranks-words"))
        )
