"""Words of the driver, of NVML and of container runtimes, and code that the GPU cannot run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.rules.devices import is_board
from envguard.crash.rules.kernel_driver import REFUSED
from envguard.crash.rules.model import make_finding
from envguard.facts.findings import Finding, Status
from envguard.facts.versions import CudaVersion

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
    hits = case.hits("driver-too-old", "insufficient-driver", "cuda-name-insufficient")
    if not hits:
        return
    found = case.log.first("driver-too-old")
    number = found.number("v") if found else None
    runtime = _runtime(case)
    api = CudaVersion.from_api(number) if number else case.facts.machine.driver.cuda
    said = f"The driver serves CUDA {api}" if api else "What the driver serves is not stated"
    wanted = f"; the build needs CUDA {runtime}." if runtime else "."
    crosses = api is not None and (runtime.major > api.major if runtime else False)
    # From CUDA 11 on every driver of a major starts all of it, so torch's refusal means a major.
    is_compatible = api is None or api.major >= _COMPATIBLE_SINCE
    is_major = crosses or (runtime is None and found is not None and is_compatible)
    outcome = "driver-too-old-for-cuda-major" if is_major else "driver-too-old-for-cuda"
    yield make_finding(case, outcome, Status.FAIL, hits, detail=said + wanted)


def _runtime(case: Case) -> CudaVersion | None:
    torch = case.facts.environment.torch if case.facts.environment else None
    return torch.cuda if torch is not None else None


def check_no_gpu(case: Case) -> Iterator[Finding]:
    """No driver, or no device: unless something else says why."""
    if case.log.has("system-not-ready-802", "forward-compat-804", "nvml-mismatch", *REFUSED):
        return
    hits = case.hits("no-device-100", "cuda-name-none")
    if hits and _is_shadowed(case):
        yield make_finding(case, "wsl-driver-shadow", Status.FAIL, (*hits, *case.hits("wsl-words")))
        return
    hits = case.hits(*_NO_DEVICE)
    if hits and not (case.log.has("nvml-missing") and is_board(case)):
        yield make_finding(case, "no-gpu-visible", Status.FAIL, (*hits, *case.hits("hidden-gpus")))


def _is_shadowed(case: Case) -> bool:
    """A libcuda was loaded under WSL and found no GPU, and nothing hides the GPUs."""
    is_wsl = case.log.has("wsl-words") or case.facts.machine.host.is_wsl
    listed = case.facts.machine.variable("CUDA_VISIBLE_DEVICES")
    is_hidden = case.log.has("hidden-gpus") or (listed is not None and listed in {"", "-1"})
    return bool(is_wsl) and not is_hidden
