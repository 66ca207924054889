"""Reads this machine: starts children, reads files, puts all sources' words together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Driver, Gpu, Host, Machine, Reading
from envguard.facts.variables import recorded_variables
from envguard.facts.visible import mark_visible
from envguard.probe.host import probe_host
from envguard.probe.kernel import probe_fabric, probe_procfs, probe_sysfs
from envguard.probe.libcuda import collect_libcuda
from envguard.probe.limits import probe_limits
from envguard.probe.loader_path import find_library_path_files, read_libcuda_mount
from envguard.probe.nvml import collect_nvml
from envguard.probe.start import SmiChildren, StartedProbe, start_nvidia_smi
from envguard.probe.toolkit import collect_toolkit, start_toolkit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from envguard.probe.answers import SourceAnswer
    from envguard.probe.probe_options import ProbeOptions


T = TypeVar("T")

# Who is believed where sources differ. The kernel's own files tell the kernel-mode version
# first-hand; libcuda is what a CUDA program will really load, forward-compatibility included.
_VERSION_ORDER = ("procfs", "sysfs", "nvml", "nvidia-smi")
_CUDA_ORDER = ("libcuda", "nvml", "nvidia-smi")
_USER_MODE_ORDER = ("libcuda", "nvml", "nvidia-smi")


def merge_driver(said: Sequence[SourceAnswer]) -> Driver:
    """One driver out of all sources, each field from the first in its order that knows it.

    Which source wins is fixed: kernel version procfs > sysfs > nvml > nvidia-smi; CUDA and the
    user-mode version libcuda > nvml > nvidia-smi. Every other word stays in the readings.
    """
    by_name = {source.probe: source.driver for source in said}
    loaded = [s.driver.is_loaded for s in said if s.driver.is_loaded is not None]
    return Driver(
        version=_first(by_name, _VERSION_ORDER, lambda d: d.version),
        cuda=_first(by_name, _CUDA_ORDER, lambda d: d.cuda),
        user_mode_version=_first(by_name, _USER_MODE_ORDER, lambda d: d.user_mode_version),
        kernel_module=_first(by_name, ("procfs",), lambda d: d.kernel_module),
        is_loaded=any(loaded) if loaded else None,
        compat_libcuda=_first(by_name, ("libcuda",), lambda d: d.compat_libcuda),
    )


def _first(
    drivers: dict[str, Driver], order: Sequence[str], get: Callable[[Driver], T | None]
) -> T | None:
    values = (get(drivers[name]) for name in order if name in drivers)
    return next((value for value in values if value is not None), None)


def merge_gpus(said: Sequence[SourceAnswer], host: Host, driver: Driver) -> tuple[Gpu, ...] | None:
    """The GPUs that a process here can ask for: NVML's list, else nvidia-smi's.

    procfs lists what the kernel drives, which a container may not use: a reading, not a list.

    Returns:
        None when not known. Empty when a source says so, or when there is neither a driver
        nor an NVIDIA device on the PCI bus nor another way to have one (WSL, Jetson).
    """
    by_name = {source.probe: source.gpus for source in said}
    lists = [by_name[name] for name in ("nvml", "nvidia-smi") if name in by_name]
    known = next((gpus for gpus in lists if gpus is not None), None)
    if known is not None:
        return known
    counts = [r.value for s in said for r in s.readings if r.probe == "pci"]
    has_other_way = host.is_wsl or host.jetson
    if counts == ["0"] and not driver.is_loaded and not has_other_way:
        return ()
    return None


def merge_readings(
    said: Sequence[SourceAnswer], gpus: tuple[Gpu, ...] | None
) -> tuple[Reading, ...]:
    """All readings, sorted; procfs's GPUs get NVML's index where the PCI address tells it."""
    order = {bus_key(gpu.pci_bus_id): gpu.index for gpu in gpus or () if gpu.pci_bus_id}
    found: list[Reading] = []
    for source in said:
        moved = {gpu.index: order.get(bus_key(gpu.pci_bus_id)) for gpu in source.gpus or ()}
        found += [_moved(reading, moved) for reading in source.readings]
    return tuple(sorted(found, key=lambda r: (r.fact, r.probe, r.value)))


def _moved(reading: Reading, moved: dict[int, int | None]) -> Reading:
    head, bracket, rest = reading.fact.partition("[")
    number, _, tail = rest.partition("]")
    if head != "gpu" or not bracket:
        return reading
    index = moved.get(int(number))
    return reading if index is None else replace(reading, fact=f"gpu[{index}]{tail}")


def bus_key(bus: str | None) -> str:
    """A PCI address that compares: the domain has four or eight digits, case varies."""
    domain, _, rest = (bus or "").lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest}"


def collect_machine(
    started: StartedProbe, options: ProbeOptions
) -> tuple[Machine, tuple[Gap, ...]]:
    """Describe the machine.

    Args:
        started: The children, started before.
        options: Where to look.
    """
    toolkit_probe = start_toolkit(options)
    host, host_gaps = probe_host(options)
    limits, limit_gaps = probe_limits(options)
    said = [probe_procfs(options), probe_sysfs(options), collect_libcuda(started.libcuda)]
    said += _ask_driver(started, options)
    toolkit, toolkit_gaps = collect_toolkit(toolkit_probe)
    fabric = probe_fabric(options, host.container)
    driver = merge_driver(said)
    gpus = merge_gpus(said, host, driver)
    readings = merge_readings(said, gpus)
    machine = Machine(
        host=host,
        driver=replace(driver, nvswitches=fabric.switches, has_fabric_manager=fabric.has_manager),
        gpus=None if gpus is None else mark_visible(gpus, options.environ),
        toolkit=toolkit,
        limits=limits,
        variables=recorded_variables(options.environ),
        readings=(*readings, *read_libcuda_mount(options, host.container, readings)),
        library_path_files=find_library_path_files(options),
    )
    said_gaps = [gap for source in said for gap in source.gaps]
    return machine, (*said_gaps, *fabric.gaps, *host_gaps, *limit_gaps, *toolkit_gaps)


def _ask_driver(started: StartedProbe, options: ProbeOptions) -> list[SourceAnswer]:
    """NVML's answer, and nvidia-smi's where it was asked for or NVML's is not full."""
    nvml = collect_nvml(started.nvml)
    if options.all_sources:
        return [nvml, _ask_nvidia_smi(started.nvidia_smi)]
    is_full = nvml.gpus is not None and None not in (nvml.driver.version, nvml.driver.cuda)
    is_stuck = any(gap.reason is GapReason.TIMED_OUT for gap in nvml.gaps)
    if is_full or is_stuck:  # nvidia-smi would wait for the same driver
        return [nvml]

    children = start_nvidia_smi(options)
    return [nvml, _ask_nvidia_smi(children)] if children else [nvml]


def _ask_nvidia_smi(children: SmiChildren | None) -> SourceAnswer:
    from envguard.probe.nvidia_smi import absent_nvidia_smi, collect_nvidia_smi

    return collect_nvidia_smi(children) if children else absent_nvidia_smi()
