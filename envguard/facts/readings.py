"""The words of one source about the driver and the GPUs, as readings."""

from __future__ import annotations

from envguard.facts.machine import Driver, Gpu, Reading

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
