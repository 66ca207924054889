"""What one source says about the driver and the GPUs."""

from __future__ import annotations

import ast
from dataclasses import field
from typing import Any

from envguard.facts.gaps import Gap, read_driver, read_gpus
from envguard.facts.machine import Driver, Gpu, Reading
from envguard.facts.versions import CudaVersion, DriverVersion
from envguard.values import dataclass

__all__ = [
    "SourceAnswer",
    "cuda_from_api",
    "driver_version_of_file",
    "driver_version_or_none",
    "read_driver",
    "read_gpus",
    "read_literal",
]


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """One source's word, before the sources are put together.

    Args:
        probe: The source.
        driver: What it says of the driver.
        gpus: The GPUs that it lists; None when it could not say.
        readings: Its words as it prints them.
        gaps: What it could not say, and why.
    """

    probe: str
    driver: Driver = field(default_factory=Driver)
    gpus: tuple[Gpu, ...] | None = None
    readings: tuple[Reading, ...] = ()
    gaps: tuple[Gap, ...] = ()


def read_literal(line: str) -> dict[str, Any]:
    """A dict that a child of ours wrote as a Python literal; empty for a line cut short."""
    try:
        value = ast.literal_eval(line)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def driver_version_or_none(text: object) -> DriverVersion | None:
    """A driver version, or None for anything that is not one."""
    if not isinstance(text, str):
        return None
    try:
        return DriverVersion.parse(text)
    except ValueError:
        return None


def cuda_from_api(number: object) -> CudaVersion | None:
    """The CUDA version behind an API number; None for 0, which an absent driver reports."""
    if isinstance(number, int) and not isinstance(number, bool) and 1000 <= number < 1_000_000:
        return CudaVersion.from_api(number)
    return None


def driver_version_of_file(path: str | None) -> DriverVersion | None:
    """The driver version in a library's name: ``libcuda.so.550.54.15``; None for ``.so.1``."""
    tail = (path or "").rpartition("/")[2].partition(".so.")[2]
    return driver_version_or_none(tail) if "." in tail else None
