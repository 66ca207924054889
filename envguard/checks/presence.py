"""Is there a driver and a GPU that a process here can use, and if not, who keeps it away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import (
    CheckOptions,
    cuda_build,
    driver_evidence,
    is_in_container,
    reading_evidence,
    readings_of,
)
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.gaps import GapReason
from envguard.facts.sentences import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.facts import Facts
    from envguard.facts.findings import Source
    from envguard.facts.machine import Machine
    from envguard.matrix.loader import Matrix

_NO_DEVICES = frozenset({"", "none", "void"})  # values of NVIDIA_VISIBLE_DEVICES
_WORKS_WITH = frozenset({"all", "compute"})  # NVIDIA_DRIVER_CAPABILITIES that bring libcuda


def has_driver(machine: Machine) -> bool:
    """Whether anything is known of a driver."""
    return machine.driver.version is not None or machine.driver.cuda is not None


def lacks_libraries(facts: Facts) -> bool:
    """The kernel module is loaded, yet neither GPUs nor libcuda are found by this process."""
    machine = facts.machine
    if machine.gpus or not machine.driver.is_loaded or machine.host.jetson:
        return False
    absent = {g.probe for g in facts.gaps if g.reason is GapReason.ABSENT}
    return "libcuda" in absent or "nvml" in absent


def check_gpu_visible(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """A CUDA build, or ``--require-gpu``, needs a driver and a GPU that it can see."""
    machine = facts.machine
    if not (cuda_build(facts) is not None or options.require_gpu):
        return
    missing = machine.driver.is_loaded is False and not has_driver(machine)
    hidden = bool(machine.gpus) and not machine.selected_gpus
    if not (missing or machine.gpus == () or hidden or lacks_libraries(facts)):
        return
    if hidden:
        detail, remedy = _hidden_words(facts)
    elif is_in_container(machine.host):
        detail, remedy = _container_words(facts, missing=missing)
    else:
        detail, remedy = _host_words(facts, missing=missing)
    yield Finding(
        code="DRV003",
        cause="no-gpu-visible",
        status=Status.FAIL if options.require_gpu else Status.WARN,
        title="no NVIDIA GPU is visible",
        detail=detail,
        evidence=(*driver_evidence(facts), *_evidence(facts)),
        remedy=Remedy(remedy),
        source=_source(facts, matrix),
    )


def _source(facts: Facts, matrix: Matrix) -> Source | None:
    is_container = is_in_container(facts.machine.host)
    return matrix.machines.source("container-devices") if is_container else None


def _hidden_words(facts: Facts) -> tuple[str, str]:
    value = facts.machine.variable("CUDA_VISIBLE_DEVICES")
    return (
        say("every GPU is hidden by CUDA_VISIBLE_DEVICES={value!r}", value=value),
        "unset CUDA_VISIBLE_DEVICES, or name a GPU in it",
    )


def _container_words(facts: Facts, *, missing: bool) -> tuple[str, str]:
    start = (
        "start the container with its GPUs (--gpus all, a CDI device, or a GPU limit of the pod)"
    )
    listed = facts.machine.variable("NVIDIA_VISIBLE_DEVICES")
    if listed is not None and listed.strip() in _NO_DEVICES:
        return say(
            "this container is given no GPU: NVIDIA_VISIBLE_DEVICES={value!r}", value=listed
        ), start
    named = facts.machine.variable("NVIDIA_DRIVER_CAPABILITIES")
    if not missing and named and not _WORKS_WITH & set(named.split(",")):
        return (
            say(
                "NVIDIA_DRIVER_CAPABILITIES={value!r} leaves libcuda out of this container",
                value=named,
            ),
            "set NVIDIA_DRIVER_CAPABILITIES=compute,utility when the container is started",
        )
    if missing:
        words = _host_words(facts, missing=True)[0]
        return words, say(
            "install the NVIDIA driver on the host, and {how_to_start}", how_to_start=start
        )
    version = facts.machine.driver.version
    driver = (
        say("the host's driver {version} is loaded", version=version)
        if version
        else "the host has a driver"
    )
    return say(
        "{driver}, but this container is given no GPU of it{what_was_tried}",
        driver=driver,
        what_was_tried=_said(facts),
    ), start


def _host_words(facts: Facts, *, missing: bool) -> tuple[str, str]:
    what = "the driver lists no GPU"
    if missing:
        what = "no NVIDIA driver is loaded"
    elif facts.machine.gpus is None:
        what = "the driver's libraries are not found"
    count = next((r.value for r in readings_of(facts, "gpu.count") if r.probe == "pci"), "0")
    present = say("; {count} NVIDIA GPUs are on the PCI bus", count=count) if count != "0" else ""
    return (
        say(
            "{what_is_missing} on this machine{what_was_tried}{present}; a CUDA build of "
            "torch runs on the CPU here",
            what_is_missing=what,
            what_was_tried=_said(facts),
            present=present,
        ),
        "install the NVIDIA driver, or start the container with its GPUs (--gpus all); check "
        "`nvidia-smi` first",
    )


def _said(facts: Facts) -> str:
    """What the sources said instead, each thing once."""
    facts_asked = {
        "machine.driver.version",
        "machine.driver",
        "machine.driver.cuda",
        "machine.gpus",
    }
    words = [f"{g.probe}: {g.detail}" for g in facts.gaps if g.detail and g.fact in facts_asked]
    return f" ({'; '.join(dict.fromkeys(words))})" if words else ""


def _evidence(facts: Facts) -> tuple[Evidence, ...]:
    names = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
    pairs = [(name, facts.machine.variable(name)) for name in names]
    variables = tuple(
        Evidence(f"variables.{name}", value, "environment")
        for name, value in pairs
        if value is not None
    )
    return (*variables, *reading_evidence(readings_of(facts, "gpu.count")))
