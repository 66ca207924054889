"""Fill in what the tables derive: a GPU's capability from its name, a pin's CUDA from its origin."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.facts.environment import Accelerator, BuildOrigin
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import Reading

if TYPE_CHECKING:
    from envguard.facts.environment import Environment, TorchBuild
    from envguard.facts.facts import Facts
    from envguard.facts.machine import Gpu, Machine, Platform
    from envguard.facts.versions import Backend, ComputeCapability
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
    environment = facts.environment
    if environment is not None and environment.torch is not None:
        environment = _complete_torch(environment, environment.torch, machine.host.platform, matrix)
    return replace(facts, machine=machine, environment=environment, gaps=(*facts.gaps, *gaps))


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
            return None, f"no GPU named {name!r} is known"
        case several:
            listed = ", ".join(str(capability) for capability in several)
            return None, f"{name!r} was sold with several compute capabilities: {listed}"


def _complete_torch(
    environment: Environment, torch: TorchBuild, platform: Platform | None, matrix: Matrix
) -> Environment:
    if torch.accelerator is not None:
        return environment
    backend = _backend_of(torch, platform, matrix)
    if backend is None:
        return environment
    accelerator = Accelerator.CUDA if backend.cuda else Accelerator.CPU
    completed = replace(torch, accelerator=accelerator, cuda=backend.cuda)
    return replace(environment, torch=completed)


def _backend_of(torch: TorchBuild, platform: Platform | None, matrix: Matrix) -> Backend | None:
    """What a version without a stated CUDA is: PyPI's build, where PyPI is where it comes from.

    A wheel from PyPI carries no local label, so its absence points to PyPI for a pin and a lock;
    for installed metadata it is the likeliest origin, and findings say that it was derived.
    """
    if torch.version is None or torch.version.local is not None or platform is None:
        return None
    if torch.origin is BuildOrigin.VERSION_FILE or torch.index_url is not None:
        return None
    return matrix.torch.pypi_backend(torch.version, platform)
