"""The kernel-mode driver in procfs and sysfs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from envguard.facts.gaps import GapReason
from envguard.facts.machine import ContainerKind, KernelModule, Reading
from envguard.facts.versions import DriverVersion
from envguard.probe.kernel import (
    parse_gpu_information,
    parse_module_flavour,
    parse_proc_version,
    probe_fabric,
    probe_procfs,
    probe_sysfs,
)

if TYPE_CHECKING:
    from tests.stubs.machine import StubMachine


PROPRIETARY = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023
GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)
"""
OPEN = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.144.03  Release Build  (dvs-builder)
GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)
"""
OLD = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  390.157  Wed Oct 12 09:19:07 UTC 2022\n"
INFORMATION = """\
Model: \t\t NVIDIA H200
IRQ:   \t\t 255
GPU UUID: \t GPU-1a2b3c4d-0000-1111-2222-333344445555
Video BIOS: \t 96.00.bc.00.01
Bus Type: \t PCIe
DMA Size: \t 52 bits
Bus Location: \t 0000:19:00.0
Device Minor: \t 0
GPU Excluded:\t No
"""


@pytest.mark.parametrize(
    ("text", "version", "flavour"),
    [
        (PROPRIETARY, "535.104.05", KernelModule.PROPRIETARY),
        (OPEN, "550.144.03", KernelModule.OPEN),
        (OLD, "390.157", KernelModule.PROPRIETARY),
    ],
)
def test_version_and_flavour_are_read(text: str, version: str, flavour: KernelModule) -> None:
    assert str(parse_proc_version(text)) == version
    assert parse_module_flavour(text) is flavour


@pytest.mark.parametrize("text", ["", "\n", "something else\n", "GCC version: 12.3.0\n"])
def test_another_text_has_neither(text: str) -> None:
    assert parse_proc_version(text) is None
    assert parse_module_flavour(text) is None


def test_the_compilers_version_is_not_the_drivers() -> None:
    text = "NVRM version: none\nGCC version:  gcc version 12.3.0 (Ubuntu)\n"
    assert parse_proc_version(text) is None


def test_a_gpus_information_is_read() -> None:
    gpu = parse_gpu_information(INFORMATION, 0, "0000:19:00.0")
    assert gpu.name == "NVIDIA H200"
    assert gpu.uuid == "GPU-1a2b3c4d-0000-1111-2222-333344445555"
    assert gpu.pci_bus_id == "0000:19:00.0"


def test_a_uuid_of_question_marks_is_not_known() -> None:
    text = "Model: Unknown\nGPU UUID: GPU-????????-????-????-????-????????????\n"
    assert parse_gpu_information(text, 0, "0000:19:00.0").uuid is None


def test_procfs_gives_readings_of_the_gpus(stub_machine: StubMachine) -> None:
    stub_machine.write("/proc/driver/nvidia/version", OPEN)
    stub_machine.write("/proc/driver/nvidia/gpus/0000:19:00.0/information", INFORMATION)
    said = probe_procfs(stub_machine.options())
    assert said.driver.version == DriverVersion.parse("550.144.03")
    assert said.driver.kernel_module is KernelModule.OPEN
    assert said.driver.is_loaded is True
    assert Reading("gpu[0].name", "NVIDIA H200", "procfs") in said.readings
    assert Reading("gpu.count", "1", "procfs") in said.readings


def test_a_gpu_without_information_keeps_its_address(stub_machine: StubMachine) -> None:
    stub_machine.write("/proc/driver/nvidia/version", OPEN)
    (stub_machine.root / "proc/driver/nvidia/gpus/0000:19:00.0").mkdir(parents=True)
    said = probe_procfs(stub_machine.options())
    assert Reading("gpu[0].pci_bus_id", "0000:19:00.0", "procfs") in said.readings


def test_a_version_file_without_version_is_a_gap(stub_machine: StubMachine) -> None:
    stub_machine.write("/proc/driver/nvidia/version", "NVRM version: unreleased\n")
    said = probe_procfs(stub_machine.options())
    assert said.gaps[0].reason is GapReason.UNREADABLE


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file_is_forbidden(stub_machine: StubMachine) -> None:
    stub_machine.write("/proc/driver/nvidia/version", OPEN).chmod(0)
    assert probe_procfs(stub_machine.options()).gaps[0].reason is GapReason.FORBIDDEN


def test_a_folder_in_place_of_the_file_is_unreadable(stub_machine: StubMachine) -> None:
    (stub_machine.root / "proc/driver/nvidia/version").mkdir(parents=True)
    assert probe_procfs(stub_machine.options()).gaps[0].reason is GapReason.UNREADABLE


def test_sysfs_gives_the_modules_version(stub_machine: StubMachine) -> None:
    stub_machine.write("/sys/module/nvidia/version", "550.144.03\n")
    said = probe_sysfs(stub_machine.options())
    assert said.driver.version == DriverVersion.parse("550.144.03")
    assert said.driver.is_loaded is True


def test_a_system_without_the_module_has_no_driver_loaded(stub_machine: StubMachine) -> None:
    stub_machine.write("/sys/module/ext4/refcnt", "1\n")
    assert probe_sysfs(stub_machine.options()).driver.is_loaded is False


@pytest.mark.parametrize("other", ["/sys/module/nvgpu/refcnt", "/dev/dxg"])
def test_tegra_and_wsl_have_drivers_of_other_names(stub_machine: StubMachine, other: str) -> None:
    stub_machine.write("/sys/module/ext4/refcnt", "1\n")
    stub_machine.write(other, "")
    assert probe_sysfs(stub_machine.options()).driver.is_loaded is None


def test_without_sysfs_nothing_is_known(stub_machine: StubMachine) -> None:
    said = probe_sysfs(stub_machine.options())
    assert said.driver.is_loaded is None
    assert said.readings == ()


def test_nvidia_gpus_on_the_bus_are_counted(stub_machine: StubMachine) -> None:
    devices = {
        "0000:07:00.0": ("0x10de", "0x030200"),  # 3D controller
        "0000:08:00.0": ("0x10de", "0x030000"),  # VGA controller
        "0000:08:00.1": ("0x10de", "0x040300"),  # the audio function of it
        "0000:09:00.0": ("0x8086", "0x030000"),  # another vendor
    }
    for address, (vendor, kind) in devices.items():
        stub_machine.write(f"/sys/bus/pci/devices/{address}/vendor", f"{vendor}\n")
        stub_machine.write(f"/sys/bus/pci/devices/{address}/class", f"{kind}\n")
    assert Reading("gpu.count", "2", "pci") in probe_sysfs(stub_machine.options()).readings


def with_switches(machine: StubMachine) -> StubMachine:
    for name in ("nvidia0", "nvidiactl", "nvidia-nvswitch0", "nvidia-nvswitch1"):
        machine.write(f"/dev/{name}", "")
    machine.write("/dev/nvidia-nvswitchctl", "")
    machine.write("/proc/1/comm", "systemd\n")
    return machine


def test_a_machine_without_switches_needs_no_daemon(stub_machine: StubMachine) -> None:
    stub_machine.write("/dev/nvidia0", "")
    assert probe_fabric(stub_machine.options(), ContainerKind.NONE) == (0, None, ())


def test_switches_without_their_daemon(stub_machine: StubMachine) -> None:
    options = with_switches(stub_machine).options()
    assert probe_fabric(options, ContainerKind.NONE) == (2, False, ())


def test_switches_with_their_daemon(stub_machine: StubMachine) -> None:
    with_switches(stub_machine).write("/proc/4711/comm", "nv-fabricmanage\n")
    assert probe_fabric(stub_machine.options(), ContainerKind.NONE) == (2, True, ())


def test_a_container_does_not_see_the_daemon(stub_machine: StubMachine) -> None:
    options = with_switches(stub_machine).options()
    switches, has_manager, gaps = probe_fabric(options, ContainerKind.DOCKER)
    assert (switches, has_manager) == (2, None)
    assert [(gap.fact, gap.reason) for gap in gaps] == [
        ("machine.driver.has_fabric_manager", GapReason.NOT_ASKED)
    ]
