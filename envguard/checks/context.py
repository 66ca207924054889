"""What checks share: options, and evidence drawn from facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.facts.findings import Evidence

if TYPE_CHECKING:
    from envguard.facts.environment import TorchBuild
    from envguard.facts.facts import Facts
    from envguard.facts.machine import Gpu


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What the user asked a check to insist on.

    Args:
        require_gpu: No usable GPU is a failure (the gate of a GPU node).
        exact_driver: Minor-version compatibility is not good enough.
    """

    require_gpu: bool = False
    exact_driver: bool = False


def origin_of(facts: Facts, fact: str, default: str = "stated") -> str:
    """Who said a fact: the probes that read it, joined, or the default."""
    probes = [r.probe for r in facts.machine.readings if r.fact == fact]
    return ", ".join(dict.fromkeys(probes)) or default


def driver_evidence(facts: Facts) -> tuple[Evidence, ...]:
    """The driver's version and CUDA API version, as far as known."""
    driver = facts.machine.driver
    pairs = (("driver.version", driver.version), ("driver.cuda", driver.cuda))
    return tuple(
        Evidence(fact, str(value), origin_of(facts, fact))
        for fact, value in pairs
        if value is not None
    )


def torch_evidence(torch: TorchBuild) -> tuple[Evidence, ...]:
    """The torch build's version and CUDA, as far as known."""
    pairs = (("torch.version", torch.version), ("torch.cuda", torch.cuda))
    stated = {"torch.cuda": _cuda_origin(torch)}
    return tuple(
        Evidence(fact, str(value), stated.get(fact, torch.origin.value))
        for fact, value in pairs
        if value is not None
    )


def _cuda_origin(torch: TorchBuild) -> str:
    derived = torch.version is not None and torch.version.local is None
    return f"{torch.origin.value}, PyPI's default build" if derived else torch.origin.value


def gpu_evidence(facts: Facts, gpu: Gpu) -> tuple[Evidence, ...]:
    """The GPU's name and capability, as far as known."""
    name, capability = f"gpu[{gpu.index}].name", f"gpu[{gpu.index}].capability"
    pairs = ((name, gpu.name), (capability, gpu.capability))
    return tuple(
        Evidence(fact, str(value), origin_of(facts, fact))
        for fact, value in pairs
        if value is not None
    )


def torch_words(torch: TorchBuild) -> str:
    """How a sentence names the build: ``torch 2.11.0+cu128`` or ``torch 2.15.0 (cu132)``."""
    text = f"torch {torch.version or '(version not known)'}"
    backend = torch.backend
    if backend is not None and (torch.version is None or torch.version.local is None):
        text += f" ({backend.label})"
    return text


def gpu_words(gpus: tuple[Gpu, ...]) -> str:
    """How a sentence names GPUs: ``GPU 0, 1 (Tesla V100, 7.0)``."""
    numbers = ", ".join(str(gpu.index) for gpu in gpus)
    kinds = dict.fromkeys(f"{g.name or 'unnamed'}, {g.capability or '?'}" for g in gpus)
    return f"GPU {numbers} ({'; '.join(kinds)})"
