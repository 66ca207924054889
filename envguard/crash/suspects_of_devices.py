"""What words about devices leave to suspect: NVML that does not start, error 801, lost kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.rules.devices import FEATURE_GAP, NO_NVML, VGPU_GAP
from envguard.crash.rules.driver import NO_GPU
from envguard.crash.rules.gpu_code import BOARD_PACKAGE, EXTENSION
from envguard.crash.rules.model import Outcome
from envguard.crash.suspicion import Suspicion
from envguard.crash.trouble import worked_after

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

LOST_DEVICES = Outcome(
    "CRS009",
    "nvml-cgroup-reload",
    "the container lost its GPU devices while it ran",
    "systemd was reloaded and rewrote the device rules of the container's cgroup.",
    "restart the container",
)
MISMATCH = Outcome(
    "CRS005",
    "nvml-kernel-userspace-mismatch",
    "the user-mode driver and the loaded kernel module are of different versions",
    "A package update replaced the libraries while the old module stays loaded.",
    "reboot",
)
_SMI = ("nvidia-smi",)


def suspect_devices(case: Case) -> Iterator[Suspicion]:
    """Hypotheses from words about NVML, error 801 and kernels that are not found."""
    yield from _nvml(case)
    if case.log.has("operation-not-supported"):
        yield from _not_supported()
    if case.log.has("named-symbol"):
        yield from _no_symbol()


def _nvml(case: Case) -> Iterator[Suspicion]:
    words = ("nvml-not-started", "nvml-missing")
    hits = case.hits(*words)
    if not hits or worked_after(case, hits[-1]):
        return
    place = "run nvidia-smi in the same place"
    yield Suspicion(
        NO_GPU,
        "without a driver in that place NVML does not start",
        "whether there is a driver is not known",
        f"{place}: 'command not found' or 'couldn't communicate' is this",
        _SMI,
        words,
    )
    yield Suspicion(
        LOST_DEVICES,
        "a container that lost its devices says the same",
        "whether it worked before is not known",
        f"{place}: 'Unknown Error' is this; start the container anew",
        _SMI,
        words,
    )
    yield Suspicion(
        MISMATCH,
        "libraries and module of two versions say the same",
        "the versions are not known",
        f"{place}: 'Driver/library version mismatch' is this",
        _SMI,
        words,
    )
    yield Suspicion(
        NO_NVML,
        "on a Jetson there is no NVML",
        "nothing speaks of one",
        "look at /etc/nv_tegra_release",
        ("cat", "/etc/nv_tegra_release"),
        words,
    )


def _not_supported() -> Iterator[Suspicion]:
    words = ("operation-not-supported", "expandable-segments")
    yield Suspicion(
        VGPU_GAP,
        "on a virtual GPU CUDA error 801 is what a feature gives that its profile leaves out",
        "whether the GPU is virtual is not known",
        "look at 'Virtualization Mode' in nvidia-smi -q; run again with expandable_segments:False "
        "and nothing else changed",
        ("nvidia-smi", "-q"),
        words,
    )
    yield Suspicion(
        FEATURE_GAP,
        "a driver older than the build's CUDA lacks what that CUDA introduced",
        "driver and build are not known",
        "compare the driver with the build",
        ("envguard", "check"),
        words,
    )


def _no_symbol() -> Iterator[Suspicion]:
    words = ("named-symbol",)
    yield Suspicion(
        EXTENSION,
        "a compiled package finds none of its kernels for this GPU",
        "the GPU and the package are not known",
        "list what its library holds, and compare it with the GPU",
        ("envguard", "inspect"),
        words,
    )
    yield Suspicion(
        BOARD_PACKAGE,
        "PyPI's aarch64 wheels do this on a Jetson",
        "nothing speaks of one",
        "look at /etc/nv_tegra_release",
        ("cat", "/etc/nv_tegra_release"),
        words,
    )
