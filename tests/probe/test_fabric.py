"""NVSwitches and their daemon, as the kernel's files show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.facts.gaps import GapReason
from envguard.facts.machine import ContainerKind
from envguard.probe.kernel import probe_fabric

if TYPE_CHECKING:
    from tests.stubs.machine import StubMachine


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
