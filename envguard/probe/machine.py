"""Reads the machine's files, waits for the children and puts all words together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Machine
from envguard.facts.variables import recorded_variables
from envguard.facts.visible import mark_visible
from envguard.probe.fabric import probe_fabric
from envguard.probe.host import probe_host
from envguard.probe.kernel import probe_procfs, probe_sysfs
from envguard.probe.libcuda import collect_libcuda
from envguard.probe.limits import probe_limits
from envguard.probe.loader_path import find_library_path_files, read_libcuda_mount
from envguard.probe.merge import merge_driver, merge_gpus, merge_readings
from envguard.probe.nvml import collect_nvml
from envguard.probe.toolkit import collect_toolkit, start_toolkit

if TYPE_CHECKING:
    from envguard.probe.options import ProbeOptions
    from envguard.probe.source import Said
    from envguard.probe.start import SmiChildren, StartedProbe


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


def _ask_driver(started: StartedProbe, options: ProbeOptions) -> list[Said]:
    """NVML's answer, and nvidia-smi's where it was asked for or NVML's is not full."""
    nvml = collect_nvml(started.nvml)
    if options.all_sources:
        return [nvml, _ask_nvidia_smi(started.nvidia_smi)]
    is_full = nvml.gpus is not None and None not in (nvml.driver.version, nvml.driver.cuda)
    is_stuck = any(gap.reason is GapReason.TIMED_OUT for gap in nvml.gaps)
    if is_full or is_stuck:  # nvidia-smi would wait for the same driver
        return [nvml]
    from envguard.probe.start import start_nvidia_smi

    children = start_nvidia_smi(options)
    return [nvml, _ask_nvidia_smi(children)] if children else [nvml]


def _ask_nvidia_smi(children: SmiChildren | None) -> Said:
    from envguard.probe.nvidia_smi import absent_nvidia_smi, collect_nvidia_smi

    return collect_nvidia_smi(children) if children else absent_nvidia_smi()
