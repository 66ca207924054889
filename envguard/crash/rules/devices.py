"""Words whose meaning goes with the kind of device: a board, a virtual GPU, WSL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.rules.model import make_finding
from envguard.crash.trouble import worked_after
from envguard.facts.findings import Evidence, Finding, Status
from envguard.matrix.fit import driver_system
from envguard.matrix.gpu_names import parse_gpu_name
from envguard.matrix.rows import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.facts.versions import CudaVersion

_NVML = ("nvml-missing", "nvml-not-started", "nvml-not-supported")


def is_board(case: Case) -> bool:
    """Whether it ran on an NVIDIA Tegra board: by the log, the host or the GPUs."""
    names = [gpu.name for gpu in case.facts.machine.selected_gpus if gpu.name]
    models = [case.matrix.gpus.find(name) for name in names]
    by_name = bool(models) and all(
        found and all(model.segment is Segment.JETSON for model in found) for found in models
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
    hits = case.hits(*_NVML)
    if not hits or not is_board(case):
        return
    lines = (*case.log.all("python-exception"), *(hit for hit in hits if "NVMLError" in hit.text))
    raised = any("NVML" in hit.text for hit in lines)
    did_fail = raised or case.exit_code not in {None, 0}
    status = Status.FAIL if did_fail and not worked_after(case, hits[-1]) else Status.WARN
    yield make_finding(case, "nvml-missing-tegra", status, (*hits, *case.hits("jetson-words")))


def check_not_supported(case: Case) -> Iterator[Finding]:
    """CUDA error 801: a virtual GPU, or a driver older than the toolkit."""
    hits = case.hits("operation-not-supported")
    if not hits:
        return
    if is_virtual(case):
        also = case.hits("vgpu-profile", "vgpu-words", "expandable-segments")
        yield make_finding(case, "vgpu-feature-gap", Status.FAIL, (*hits, *also))
        return
    gap = _toolkit_gap(case)
    if gap is not None:
        api, nvcc = gap
        more = (
            Evidence("driver.cuda", str(api), "the subject"),
            Evidence("toolkit.nvcc", str(nvcc), "the subject"),
        )
        said = f"The driver is of CUDA {api}, the toolkit of CUDA {nvcc}."
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
    hits = case.hits("invalid-ordinal")
    if hits:
        yield make_finding(
            case, "invalid-device-ordinal", Status.FAIL, (*hits, *case.hits("ranks-words"))
        )
