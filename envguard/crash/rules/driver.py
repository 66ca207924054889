"""Words of the driver, of NVML and of container runtimes, and code that the GPU cannot run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.rules.devices import is_board
from envguard.crash.rules.kernel_driver import REFUSED
from envguard.crash.rules.model import Outcome, WordRule, apply_words, make_finding
from envguard.facts.findings import Finding, Status
from envguard.facts.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

TOO_OLD = Outcome(
    "CRS001",
    "driver-too-old-for-cuda",
    "the driver is too old for the CUDA that torch was built with",
    "torch cannot start CUDA on this driver.",
    "install a newer driver, or a torch build for an older CUDA",
)
TOO_OLD_MAJOR = Outcome(
    "CRS001",
    "driver-too-old-for-cuda-major",
    TOO_OLD.title,
    "The build needs a CUDA major that this driver does not serve; minor-version compatibility "
    "does not cross majors.",
    TOO_OLD.remedy,
)
CPU_BUILD = Outcome(
    "CRS015",
    "cpu-wheel-selected",
    "this torch is a CPU build",
    "It never uses a GPU.",
    "install a CUDA build of torch; `envguard lock torch` names one",
    ("envguard", "lock", "torch"),
)
NO_GPU = Outcome(
    "CRS006",
    "no-gpu-visible",
    "no NVIDIA GPU is visible to the program",
    "Either there is no driver here, or the container or CUDA_VISIBLE_DEVICES hides the GPUs.",
    "look at `nvidia-smi` in the same place, start the container with its GPUs (--gpus all), "
    "and look at CUDA_VISIBLE_DEVICES",
)
WSL = Outcome(
    "CRS068",
    "wsl-driver-shadow",
    "a Linux driver inside WSL stands before the one of Windows",
    "Under WSL libcuda comes from Windows, in /usr/lib/wsl/lib. Another one looks for a kernel "
    "module that WSL does not have, and finds no GPU.",
    "remove Linux driver packages inside WSL, so that /usr/lib/wsl/lib/libcuda.so.1 is found first "
    "(LD_LIBRARY_PATH=/usr/lib/wsl/lib shows whether that is it); update the Windows driver",
    ("ldconfig", "-p"),
)
_NO_DEVICE = (
    "no-driver",
    "no-device-100",
    "nvidia-smi-failed",
    "cuda-name-none",
    "smi-no-devices",
    "nvml-driver-absent",
)
_WORDS = (
    WordRule(
        Outcome(
            "CRS003",
            "compat-libcuda-in-image-on-geforce",
            "a forward-compatibility libcuda is loaded on a GPU that may not use one",
            "CUDA error 804: the image brings a newer libcuda (cuda-compat), which only "
            "data-center GPUs accept. The host's own driver may serve the image by minor-version "
            "compatibility once that library is out of the way.",
            "take the image's cuda-compat folder off the library path (or update the host driver, "
            "or libnvidia-container)",
        ),
        ("forward-compat-804", "cuda-name-compat"),
    ),
    WordRule(
        Outcome(
            "CRS004",
            "fabric-manager-missing",
            "the NVSwitch fabric is not set up",
            "CUDA error 802: GPUs that are joined by NVSwitch need nvidia-fabricmanager of exactly "
            "the driver's version to run; nvidia-smi works without it.",
            "start nvidia-fabricmanager of the driver's version",
            ("systemctl", "enable", "--now", "nvidia-fabricmanager"),
        ),
        ("system-not-ready-802", "cuda-name-ready"),
    ),
    WordRule(
        Outcome(
            "CRS005",
            "nvml-kernel-userspace-mismatch",
            "the user-mode driver and the loaded kernel module are of different versions",
            "A package update replaced the libraries while the old module stays loaded.",
            "reboot, or unload and load the nvidia modules; then pin the driver packages",
        ),
        ("nvml-mismatch", "driver-mismatch-803", "cuda-name-mismatch"),
    ),
    WordRule(
        Outcome(
            "CRS009",
            "nvml-cgroup-reload",
            "the container lost its GPU devices while it ran",
            "systemd was reloaded and rewrote the device rules of the container's cgroup.",
            "restart the container; let the runtime create it with --device nodes or use the "
            "cgroupfs driver",
        ),
        ("nvml-unknown-error",),
    ),
    WordRule(
        Outcome(
            "CRS010",
            "driver-libs-baked-in-image",
            "driver libraries lie in the image where the host's are to be mounted",
            "The image was committed while the host's driver was mounted into it.",
            "remove libcuda, libnvidia-ml and the other driver libraries from the image",
        ),
        ("container-file-exists",),
    ),
    WordRule(
        Outcome(
            "CRS011",
            "vgpu-licence",
            "the virtual GPU has no licence",
            "An unlicensed vGPU refuses CUDA contexts; nvidia-smi looks well.",
            "point nvidia-gridd to the licence server and look at the licence",
            ("nvidia-smi", "-q"),
        ),
        ("vgpu-unlicensed",),
    ),
    WordRule(
        Outcome(
            "CRS011",
            "vgpu-licence",
            "the virtual GPU refuses contexts",
            "On a vGPU this is what a missing licence looks like.",
            "look at 'License Status' in `nvidia-smi -q`, then at nvidia-gridd",
            ("nvidia-smi", "-q"),
        ),
        ("devices-unavailable",),
        needs=("vgpu-words",),
        unless=("vgpu-unlicensed",),
    ),
    WordRule(
        Outcome(
            "CRS012",
            "mig-uuid-parsing",
            "a program reads CUDA_VISIBLE_DEVICES as numbers, and it holds UUIDs",
            "MIG instances have no numbers.",
            "upgrade the package in the traceback, or give it a GPU that is not cut into instances",
        ),
        ("mig-uuid",),
    ),
    WordRule(
        Outcome(
            "CRS014",
            "minor-compat-feature-gap",
            "the driver cannot compile PTX of a newer CUDA",
            "CUDA error 222: code that is only there as PTX needs a driver of that CUDA. "
            "Minor-version compatibility does not cover it.",
            "install the driver of that CUDA, or a build (of torch, Triton or the extension) for "
            "the driver's own CUDA",
        ),
        ("ptx-toolchain", "call-needs-newer-driver"),
    ),
    WordRule(
        Outcome(
            "CRS006",
            "no-gpu-visible",
            "the container runtime hands no GPUs to containers",
            "Docker knows no runtime or device driver for NVIDIA GPUs; the driver of the host is "
            "another matter.",
            "install the NVIDIA Container Toolkit on the host, `nvidia-ctk runtime configure`, and "
            "restart the container runtime",
            ("nvidia-ctk", "runtime", "configure", "--runtime=docker"),
        ),
        ("container-no-gpu-runtime",),
    ),
    WordRule(CPU_BUILD, ("cpu-build-words",)),
)


_COMPATIBLE_SINCE = 11  # CUDA majors with minor-version compatibility


def check_driver_words(case: Case) -> Iterator[Finding]:
    """Words that name the cause."""
    yield from apply_words(_WORDS, case)


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
    outcome = TOO_OLD_MAJOR if is_major else TOO_OLD
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
        yield make_finding(case, WSL, Status.FAIL, (*hits, *case.hits("wsl-words")))
        return
    hits = case.hits(*_NO_DEVICE)
    if hits and not (case.log.has("nvml-missing") and is_board(case)):
        yield make_finding(case, NO_GPU, Status.FAIL, (*hits, *case.hits("hidden-gpus")))


def _is_shadowed(case: Case) -> bool:
    """A libcuda was loaded under WSL and found no GPU, and nothing hides the GPUs."""
    is_wsl = case.log.has("wsl-words") or case.facts.machine.host.is_wsl
    listed = case.facts.machine.variable("CUDA_VISIBLE_DEVICES")
    is_hidden = case.log.has("hidden-gpus") or (listed is not None and listed in {"", "-1"})
    return bool(is_wsl) and not is_hidden
