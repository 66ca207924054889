"""Why a fact is not known, and what each source said of it: absence always carries a reason."""

from __future__ import annotations

from enum import Enum

from envguard.facts.machine import Driver, Gpu, Reading
from envguard.values import dataclass


class GapReason(Enum):
    """Why a probe or a text did not give a fact."""

    ABSENT = "absent"
    FORBIDDEN = "forbidden"
    MISMATCH = "mismatch"
    TIMED_OUT = "timed-out"
    CRASHED = "crashed"
    UNREADABLE = "unreadable"
    NOT_ASKED = "not-asked"


@dataclass(frozen=True, slots=True)
class Gap:
    """One fact that is not known.

    Args:
        fact: Dotted name of the fact, e.g. ``machine.driver.version`` or ``machine.gpus``.
        reason: Why it is not known.
        probe: Who looked: ``nvml``, ``libcuda``, ``collect_env``, ``stated`` ...
        detail: One line for a person, possibly empty.
    """

    fact: str
    reason: GapReason
    probe: str
    detail: str = ""


_GPU_FIELDS = ("name", "capability", "memory_bytes", "uuid", "pci_bus_id")


def read_driver(driver: Driver, probe: str) -> tuple[Reading, ...]:
    """The readings of a driver: ``driver.version``, ``driver.cuda`` ... where it is known."""
    values = {
        "driver.version": driver.version,
        "driver.cuda": driver.cuda,
        "driver.user_mode_version": driver.user_mode_version,
        "driver.kernel_module": driver.kernel_module and driver.kernel_module.value,
        "driver.compat_libcuda": driver.compat_libcuda,
    }
    return tuple(Reading(fact, str(v), probe) for fact, v in values.items() if v is not None)


def read_gpus(gpus: tuple[Gpu, ...], probe: str) -> tuple[Reading, ...]:
    """The readings of GPUs: ``gpu.count``, ``gpu[0].name`` ..., by their index."""
    count = Reading("gpu.count", str(len(gpus)), probe)
    words = [
        Reading(f"gpu[{gpu.index}].{name}", str(getattr(gpu, name)), probe)
        for gpu in gpus
        for name in _GPU_FIELDS
        if getattr(gpu, name) is not None
    ]
    return (count, *words)
