"""Fill in what the tables derive: a capability from a name, a CUDA release from an origin."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.facts.environment import Accelerator, BuildOrigin, TorchBuild, label_of_version
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import OperatingSystem, Platform, Reading
from envguard.facts.sentences import say
from envguard.matrix.picks import OpenPins, requirers_of_torch, settle

if TYPE_CHECKING:
    from envguard.facts.environment import Environment
    from envguard.facts.facts import Facts
    from envguard.facts.machine import Gpu, Machine
    from envguard.facts.versions import ComputeCapability
    from envguard.matrix.loader import Matrix


def complete_facts(facts: Facts, matrix: Matrix) -> Facts:
    """Derive what the tables know from what is stated; nothing stated is changed.

    Args:
        facts: Facts as read.
        matrix: The tables; gpus.toml is only opened when a GPU states no capability.

    Returns:
        Facts with compute capabilities from GPU names and the torch build's CUDA from its label,
        index or PyPI's default for the platform; a gap where the tables cannot tell.
    """
    machine, gaps = complete_machine(facts.machine, matrix)
    environment, platforms = facts.environment, possible_platforms(machine)
    if environment is not None and environment.is_open:
        named = environment.distribution("torch")
        by_conda = named is not None and named.installer == "conda"
        if environment.torch is None or (environment.wish("torch") and not by_conda):
            required = _required_torch(environment, matrix)
            environment = replace(environment, torch=required or environment.torch)
        environment = settle(_on_image(environment, matrix), platforms, matrix)
    if environment is not None and environment.torch is not None:
        environment = _complete_torch(environment, environment.torch, platforms, matrix)
    return replace(facts, machine=machine, environment=environment, gaps=(*facts.gaps, *gaps))


def _on_image(environment: Environment, matrix: Matrix) -> Environment:
    """The torch of the image below, where the install lines put no other release in its place."""
    found = matrix.machines.image(environment.image) if environment.image else None
    torch, wish = environment.torch, environment.wish("torch")
    if found is None or (torch is not None and torch.version is not None):
        return environment
    if wish is not None and not wish.specifier.contains(found.torch, prereleases=True):
        return environment
    held = TorchBuild(found.torch, Accelerator.CUDA, found.cuda, BuildOrigin.REPORT)
    return replace(environment, torch=held)


def complete_machine(machine: Machine, matrix: Matrix) -> tuple[Machine, tuple[Gap, ...]]:
    """Give each GPU its compute capability from its name where it states none.

    Returns:
        The machine, and a gap for each name that the tables do not know or that was sold with
        several capabilities.
    """
    gpus: list[Gpu] = []
    readings: list[Reading] = []
    gaps: list[Gap] = []
    for gpu in machine.gpus or ():
        if gpu.capability is not None or gpu.name is None:
            gpus.append(gpu)
            continue
        capability, trouble = capability_of(gpu.name, matrix)
        gpus.append(replace(gpu, capability=capability))
        if capability is None:
            fact = f"machine.gpus[{gpu.index}].capability"
            gaps.append(Gap(fact, GapReason.UNREADABLE, "matrix", trouble))
        else:
            readings.append(Reading(f"gpu[{gpu.index}].capability", str(capability), "matrix"))
    if machine.gpus is None:
        return machine, ()
    completed = replace(machine, gpus=tuple(gpus), readings=(*machine.readings, *readings))
    return completed, tuple(gaps)


def capability_of(name: str, matrix: Matrix) -> tuple[ComputeCapability | None, str]:
    """The compute capability of a product, or None and why it cannot be told."""
    models = matrix.gpus.find(name)
    capabilities = {model.capability for model in models} | {
        capability for model in models for capability in model.other_capabilities
    }
    match sorted(capabilities):
        case [only]:
            return only, ""
        case []:
            return None, say("no GPU named {name!r} is known", name=name)
        case several:
            listed = ", ".join(str(capability) for capability in several)
            return None, say(
                "{name!r} was sold with several compute capabilities: {capabilities}",
                name=name,
                capabilities=listed,
            )


def possible_platforms(machine: Machine) -> tuple[Platform, ...]:
    """The platforms that this machine can be: one where it is stated, else what is left.

    A driver version of three parts is a Linux one: Windows drivers have two.
    """
    if machine.host.platform is not None:
        return (machine.host.platform,)
    linux = (
        Platform(OperatingSystem.LINUX, "x86_64"),
        Platform(OperatingSystem.LINUX, "aarch64"),
    )
    version = machine.driver.version
    if machine.host.is_wsl or machine.host.glibc or (version and len(version.release) > 2):
        return linux
    return (*linux, Platform(OperatingSystem.WINDOWS, "x86_64"))


def _required_torch(environment: Environment, matrix: Matrix) -> TorchBuild | None:
    """The torch that an installer would bring along, where the pins leave no choice."""
    versions = {version for _, version in requirers_of_torch(environment, matrix)}
    labelled = {version for version in versions if version.local is not None}
    if len({Version(version.public) for version in versions}) != 1 or len(labelled) > 1:
        return None
    version = (labelled or versions).pop()
    label = label_of_version(version)
    return TorchBuild(version, label.accelerator, label.cuda, BuildOrigin.REQUIRED)


def _complete_torch(
    environment: Environment,
    torch: TorchBuild,
    platforms: tuple[Platform, ...],
    matrix: Matrix,
) -> Environment:
    if torch.accelerator is not None or not _may_be_default(torch):
        return environment
    assert torch.version is not None  # noqa: S101 - asked above
    built = OpenPins(environment, platforms, matrix).build_of(torch.version, torch.origin)
    completed = replace(torch, accelerator=built.accelerator, cuda=built.cuda)
    return replace(environment, torch=completed)


def _may_be_default(torch: TorchBuild) -> bool:
    """Whether a version without a stated CUDA is what the named indexes, or PyPI, serve.

    A wheel from PyPI carries no local label, so its absence points to PyPI for a pin and a lock;
    for installed metadata it is the likeliest origin, and findings say that it was derived.
    Several possible platforms have to agree.
    """
    if torch.version is None or torch.version.local is not None:
        return False
    return torch.origin is not BuildOrigin.VERSION_FILE and torch.index_url is None
