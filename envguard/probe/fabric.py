"""NVSwitches and the daemon that sets them up, as the kernel shows them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import ContainerKind
from envguard.probe.options import reason_of

if TYPE_CHECKING:
    from envguard.probe.options import ProbeOptions

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
