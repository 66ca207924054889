"""What words about devices leave to suspect: NVML that does not start, error 801, lost kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.suspicion import Suspect, suspect
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
    yield suspect("vgpu-feature-gap")
    yield suspect("minor-compat-feature-gap")


def _no_symbol() -> Iterator[Suspect]:
    yield suspect("extension-lacks-code-for-gpu")
    yield suspect("jetson-needs-l4t-build.board-package")
