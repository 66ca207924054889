"""The kernel-mode driver and the NVSwitch fabric as procfs and sysfs show them."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import ContainerKind, Driver, Gpu, KernelModule, Reading
from envguard.probe.answers import SourceAnswer, driver_version_or_none, read_driver, read_gpus
from envguard.probe.probe_options import ProbeOptions, reason_of

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.facts.versions import DriverVersion


PROBE = "procfs"
_MANAGER = "nv-fabricmanager"[:15]  # the kernel keeps 15 characters of a process's name


class Fabric(NamedTuple):
    """What is known of the NVSwitches of a machine."""

    switches: int
    has_manager: bool | None = None
    gaps: tuple[Gap, ...] = ()


def probe_fabric(options: ProbeOptions, container: ContainerKind | None) -> Fabric:
    """Count NVSwitches; where there are some, look for their daemon among the processes.

    Args:
        options: Where to look.
        container: In a container the host's processes are not seen.
    """
    switches = _count_switches(options)
    if not switches:
        return Fabric(0)
    fact = "machine.driver.has_fabric_manager"
    if container not in {None, ContainerKind.NONE}:
        detail = "the processes of the host are not seen from a container"
        return Fabric(switches, None, (Gap(fact, GapReason.NOT_ASKED, PROBE, detail),))
    try:
        return Fabric(switches, _is_running(options))
    except OSError as err:
        return Fabric(switches, None, (Gap(fact, reason_of(err), PROBE, str(err)),))


def _count_switches(options: ProbeOptions) -> int:
    try:
        names = os.listdir(options.path("/dev"))  # noqa: PTH208 - names suffice
    except OSError:
        return 0
    switches = [name for name in names if name.startswith("nvidia-nvswitch")]
    return sum(name[-1:].isdecimal() for name in switches)  # others control the driver


def _is_running(options: ProbeOptions) -> bool:
    for folder in options.path("/proc").iterdir():
        if folder.name.isdecimal():
            name = options.read_or_none(f"/proc/{folder.name}/comm") or ""
            if name.strip() == _MANAGER:
                return True
    return False


_DOTTED = r"\s([1-9][0-9]{1,4}(?:\.[0-9]{1,6}){1,3})(?:\s|$)"
_MARK = "NVRM version"
_NVIDIA = "0x10de"
_DISPLAY = "0x03"  # PCI base class of VGA, 3D and other display controllers


def parse_proc_version(text: str) -> DriverVersion | None:
    """Read the driver version out of ``/proc/driver/nvidia/version``.

    This is the kernel module's version; the user-mode library may differ.

    Args:
        text: Whole file, e.g. ``NVRM version: NVIDIA UNIX Open Kernel Module for x86_64
            550.144.03  Release Build ...``.

    Returns:
        The version, or None when the first line is not NVIDIA's or holds no dotted number.
    """
    first = text.partition("\n")[0]
    match = re.search(_DOTTED, first) if _MARK in first else None
    return driver_version_or_none(match[1]) if match else None


def parse_module_flavour(text: str) -> KernelModule | None:
    """Tell the open kernel module from the proprietary one in the same file.

    Returns:
        The flavour; None when the first line is not NVIDIA's.
    """
    first = text.partition("\n")[0]
    if _MARK not in first:
        return None
    return KernelModule.OPEN if "Open Kernel Module" in first else KernelModule.PROPRIETARY


def probe_procfs(options: ProbeOptions) -> SourceAnswer:
    """What ``/proc/driver/nvidia`` says: version, flavour, and the GPUs that the kernel drives.

    The GPUs are readings only: inside a container the kernel may drive GPUs that the process
    is not allowed to use.
    """
    probe = "procfs"
    try:
        text = options.read("/proc/driver/nvidia/version")
    except OSError as err:
        return SourceAnswer(probe, gaps=_kernel_gaps(probe, err))
    version = parse_proc_version(text)
    driver = Driver(version=version, kernel_module=parse_module_flavour(text), is_loaded=True)
    gaps: tuple[Gap, ...] = ()
    if version is None:
        detail = "/proc/driver/nvidia/version holds no version number"
        gaps = (Gap("machine.driver.version", GapReason.UNREADABLE, probe, detail),)
    gpus = _procfs_gpus(options)
    readings = read_driver(driver, probe) + (read_gpus(gpus, probe) if gpus is not None else ())
    return SourceAnswer(probe, driver, gpus, readings, gaps)


def _kernel_gaps(probe: str, err: OSError) -> tuple[Gap, ...]:
    """An absent file is no gap of its own: NVML says the same with a better reason."""
    reason = reason_of(err)
    if reason is GapReason.ABSENT:
        return ()
    return (Gap("machine.driver.version", reason, probe, str(err)),)


def _procfs_gpus(options: ProbeOptions) -> tuple[Gpu, ...] | None:
    try:
        folders = sorted(options.path("/proc/driver/nvidia/gpus").iterdir())
    except OSError:
        return None
    return tuple(_procfs_gpu(index, folder) for index, folder in enumerate(folders))


def _procfs_gpu(index: int, folder: Path) -> Gpu:
    try:
        text = (folder / "information").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Gpu(index, pci_bus_id=folder.name)
    return parse_gpu_information(text, index, folder.name)


def parse_gpu_information(text: str, index: int, bus: str) -> Gpu:
    """Read ``/proc/driver/nvidia/gpus/*/information``.

    Args:
        text: Whole file: lines such as ``Model: NVIDIA H200``.
        index: Position in PCI order.
        bus: Name of the folder, used where the file has no bus location.
    """
    rows = (line.partition(":") for line in text.splitlines())
    values = {name.strip(): value.strip() for name, _, value in rows if value.strip()}
    uuid = values.get("GPU UUID", "")
    return Gpu(
        index=index,
        name=values.get("Model"),
        uuid=uuid if uuid.startswith("GPU-") and "?" not in uuid else None,
        pci_bus_id=values.get("Bus Location", bus),
    )


def probe_sysfs(options: ProbeOptions) -> SourceAnswer:
    """What ``/sys`` says: the loaded module's version and the NVIDIA GPUs on the PCI bus."""
    probe = "sysfs"
    readings: list[Reading] = []
    gaps: tuple[Gap, ...] = ()
    driver = Driver()
    try:
        text = options.read("/sys/module/nvidia/version")
    except OSError as err:
        gaps = _kernel_gaps(probe, err)
        if not gaps and _has_no_other_driver(options):
            driver = Driver(is_loaded=False)
    else:
        driver = replace(driver, version=driver_version_or_none(text), is_loaded=True)
    readings += read_driver(driver, probe)
    count = _count_pci(options)
    if count is not None:
        readings.append(Reading("gpu.count", str(count), "pci"))
    return SourceAnswer(probe, driver, None, tuple(readings), gaps)


def _has_no_other_driver(options: ProbeOptions) -> bool:
    """Whether the list of modules is complete: Tegra and WSL have drivers of other names."""
    others = ("/sys/module/nvgpu", "/dev/dxg")
    has_list = options.path("/sys/module").is_dir()
    return has_list and not any(options.path(other).exists() for other in others)


def _count_pci(options: ProbeOptions) -> int | None:
    """NVIDIA display controllers on the PCI bus; None when the bus cannot be listed."""
    try:
        devices = list(options.path("/sys/bus/pci/devices").iterdir())
    except OSError:
        return None
    return sum(_is_nvidia_display(device) for device in devices)


def _is_nvidia_display(device: Path) -> bool:
    try:
        if (device / "vendor").read_text().strip() != _NVIDIA:
            return False
        return (device / "class").read_text().strip().startswith(_DISPLAY)
    except (OSError, UnicodeDecodeError):
        return False
