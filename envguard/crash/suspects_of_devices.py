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

_SMI = ("nvidia-smi",)


def suspect_devices(case: Case) -> Iterator[Suspect]:
    """Hypotheses from words about NVML, error 801 and kernels that are not found."""
    yield from _nvml(case)
    if case.log.has("operation-not-supported"):
        yield from _not_supported()
    if case.log.has("named-symbol"):
        yield from _no_symbol()


def _nvml(case: Case) -> Iterator[Suspect]:
    words = ("nvml-not-started", "nvml-missing")
    hits = case.hits(*words)
    if not hits or worked_after(case, hits[-1]):
        return
    place = "run nvidia-smi in the same place"
    yield suspect("no-gpu-visible", place=place)
    yield suspect("nvml-cgroup-reload", place=place)
    yield suspect("nvml-kernel-userspace-mismatch", place=place)
    yield suspect("nvml-missing-tegra")


def _not_supported() -> Iterator[Suspect]:
    words = ("operation-not-supported", "expandable-segments")
    yield suspect("vgpu-feature-gap")
    yield suspect("minor-compat-feature-gap")


def _no_symbol() -> Iterator[Suspect]:
    words = ("named-symbol",)
    yield suspect("extension-lacks-code-for-gpu")
    yield suspect("jetson-needs-l4t-build.board-package")
