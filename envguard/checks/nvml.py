"""The nvml family, first half: do the driver's sources say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import (
    CheckOptions,
    cuda_error,
    driver_evidence,
    gap_evidence,
    is_in_container,
    reading_evidence,
    readings_of,
)
from envguard.checks.image import image_libraries
from envguard.facts.findings import Finding, Remedy, Status
from envguard.facts.gaps import GapReason
from envguard.facts.machine import ContainerKind, OperatingSystem
from envguard.facts.versions import DriverVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.facts import Facts
    from envguard.facts.findings import Evidence
    from envguard.facts.gaps import Gap
    from envguard.facts.machine import Host
    from envguard.matrix.loader import Matrix

_DRIVER_FACTS = ("machine.driver.version", "machine.driver.cuda", "machine.gpus")
_SYSTEM_DRIVER_MISMATCH = 803


def _has_linux_driver(host: Host) -> bool:
    """The driver's libraries and its kernel module come as one release."""
    is_linux = host.platform is None or host.platform.system is OperatingSystem.LINUX
    return is_linux and not host.is_wsl and not host.jetson


def check_libraries_match_kernel(
    facts: Facts, matrix: Matrix, options: CheckOptions
) -> Iterator[Finding]:
    """The user-mode driver's libraries against the loaded kernel module."""
    if image_libraries(facts):
        return
    gaps = [
        g for g in facts.gaps if g.reason is GapReason.MISMATCH and g.fact.startswith("machine.")
    ]
    told = [gap for gap in gaps if gap.fact in _DRIVER_FACTS]
    others = library_versions(facts) if _has_linux_driver(facts.machine.host) else ()
    error = cuda_error(facts)
    if not (told or others or error == _SYSTEM_DRIVER_MISMATCH):
        return
    kernel = facts.machine.driver.version
    named = f" {kernel}" if kernel else ""
    yield Finding(
        code="NVM001",
        cause="nvml-kernel-userspace-mismatch",
        status=Status.FAIL,
        title=f"the driver's libraries and its kernel module{named} are of different releases",
        detail=f"{_mismatch_words(told, others)} Programs that start now cannot use the GPU; those "
        "that run already go on.",
        evidence=_mismatch_evidence(facts, told),
        remedy=_mismatch_remedy(facts.machine.host),
    )


def library_versions(facts: Facts) -> tuple[DriverVersion, ...]:
    """Versions of the driver's libraries that differ from the kernel module's.

    A forward-compatibility libcuda differs on purpose and is left out.
    """
    kernel = facts.machine.driver.version
    if kernel is None:
        return ()
    has_compat = facts.machine.driver.compat_libcuda is not None
    texts = [
        reading.value
        for reading in readings_of(facts, "driver.user_mode_version")
        if not (has_compat and reading.probe == "libcuda")
    ]
    field = facts.machine.driver.user_mode_version
    if not texts and field is not None and not has_compat:
        texts = [str(field)]
    found = (_plain_version(text) for text in texts)
    return tuple(dict.fromkeys(v for v in found if v is not None and v != kernel))


def _plain_version(text: str) -> DriverVersion | None:
    """A library's version without the CUDA major that NVML puts in front: 12.550.54.15."""
    head, _, tail = text.partition(".")
    try:
        return DriverVersion.parse(tail if len(head) < 3 else text)
    except ValueError:
        return None


def _mismatch_words(told: list[Gap], others: tuple[DriverVersion, ...]) -> str:
    if others:
        return f"The libraries are of {', '.join(map(str, others))}."
    if told:
        return f"{told[0].probe} says: {told[0].detail}."
    return "cuInit says that the display driver and the CUDA driver do not match (803)."


def _mismatch_evidence(facts: Facts, told: list[Gap]) -> tuple[Evidence, ...]:
    names = ("driver.version", "driver.user_mode_version", "driver.libcuda", "driver.cuda_init")
    readings = [reading for name in names for reading in readings_of(facts, name)]
    return (*(reading_evidence(readings) or driver_evidence(facts)), *gap_evidence(told))


def _mismatch_remedy(host: Host) -> Remedy:
    if is_in_container(host):
        return Remedy(
            "on the host: reboot, or unload and load the nvidia kernel modules; then start a new "
            "container, so that it gets the host's libraries. If the host itself works, the image "
            "brings driver libraries of its own: remove them"
        )
    return Remedy(
        "reboot, or stop everything that uses the GPU and reload the modules: rmmod nvidia_uvm "
        "nvidia_drm nvidia_modeset nvidia && modprobe nvidia; hold the driver's packages back "
        "from unattended upgrades"
    )


def check_sources_agree(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """What the sources say of the driver and of the number of GPUs, one against the other."""
    machine = facts.machine
    names = ["driver.version"]
    if machine.driver.compat_libcuda is None:
        names.append("driver.cuda")
    for name in names:
        readings = readings_of(facts, name)
        if len({reading.value for reading in readings}) > 1:
            words = ", ".join(f"{r.probe} says {r.value}" for r in readings)
            yield Finding(
                code="NVM002",
                cause="sources-disagree",
                status=Status.WARN,
                title=f"sources disagree about {name}: {words}",
                detail="The answer rests on the source that reads it at first hand. A text of "
                "another time or another machine disagrees as well.",
                evidence=reading_evidence(readings),
                remedy=Remedy("run `envguard check` on the machine itself, now"),
            )
    yield from _missing_gpus(facts)


def _missing_gpus(facts: Facts) -> Iterator[Finding]:
    """GPUs on the bus that the driver does not list; a container is given only some."""
    machine = facts.machine
    if not machine.gpus or machine.host.container is not ContainerKind.NONE:
        return
    readings = [r for r in readings_of(facts, "gpu.count") if r.probe in {"pci", "procfs"}]
    present = max((int(r.value) for r in readings if r.value.isdecimal()), default=0)
    if present <= len(machine.gpus):
        return
    yield Finding(
        code="NVM002",
        cause="sources-disagree",
        status=Status.WARN,
        title=f"{present} NVIDIA GPUs are in this machine, the driver lists {len(machine.gpus)}",
        detail="A GPU that fell off the bus, that the driver does not support, or that is given "
        "to a virtual machine is missing from the list.",
        evidence=reading_evidence(readings_of(facts, "gpu.count")),
        remedy=Remedy("look for NVRM and Xid lines in the kernel log: dmesg | grep -iE 'nvrm|xid'"),
    )
