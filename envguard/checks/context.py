"""What checks share: options, and evidence drawn from facts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.facts.environment import Accelerator
from envguard.facts.findings import Evidence
from envguard.facts.machine import ContainerKind
from envguard.facts.sentences import join_sentences, say
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from envguard.facts.environment import TorchBuild
    from envguard.facts.facts import Facts
    from envguard.facts.gaps import Gap
    from envguard.facts.machine import Gpu, Host, Reading
    from envguard.facts.versions import CudaVersion

_MANY = 8


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What the user asked a check to insist on.

    Args:
        require_gpu: No usable GPU is a failure (the gate of a GPU node).
        exact_driver: Minor-version compatibility is not good enough.
        torch_index: Template of the PyTorch index, ``{backend}`` to fill in.
    """

    require_gpu: bool = False
    exact_driver: bool = False
    torch_index: str = "https://download.pytorch.org/whl/{backend}"


def origin_of(facts: Facts, fact: str, default: str = "stated") -> str:
    """Who said a fact: the probes that read it, joined, or the default."""
    probes = [r.probe for r in facts.machine.readings if r.fact == fact]
    return ", ".join(dict.fromkeys(probes)) or default


def cuda_build(facts: Facts) -> tuple[TorchBuild, CudaVersion] | None:
    """The torch build and its CUDA runtime; None when it is no CUDA build, or not known."""
    torch = facts.environment.torch if facts.environment else None
    if torch is None or torch.accelerator is not Accelerator.CUDA or torch.cuda is None:
        return None
    return torch, torch.cuda


def runtime_library(major: int | None) -> str:
    """The file that code of a CUDA major asks the loader for."""
    return f"libcudart.so.{major}" + (".0" if major == 11 else "")  # all of CUDA 11 says 11.0


def is_in_container(host: Host) -> bool:
    """Known to be inside a container; one that is not known is none."""
    return host.container not in {None, ContainerKind.NONE}


def readings_of(facts: Facts, fact: str) -> tuple[Reading, ...]:
    """Every source's word on one fact."""
    return tuple(reading for reading in facts.machine.readings if reading.fact == fact)


def word_of(facts: Facts, fact: str) -> str | None:
    """The first source's word on a fact; None when no source has one."""
    return next((reading.value for reading in readings_of(facts, fact)), None)


def cuda_error(facts: Facts) -> int | None:
    """The error that ``cuInit`` returned, 0 for success; None when it was not called."""
    match = re.search(r"\(([0-9]{1,4})\)$", word_of(facts, "driver.cuda_init") or "")
    return int(match[1]) if match else None


def reading_evidence(readings: Iterable[Reading]) -> tuple[Evidence, ...]:
    """Readings as evidence, each with its source."""
    return tuple(Evidence(r.fact, r.value, r.probe) for r in readings)


def gap_evidence(gaps: Iterable[Gap]) -> tuple[Evidence, ...]:
    """Gaps as evidence: what the source said instead of an answer."""
    return tuple(Evidence(g.fact, g.detail or g.reason.value, g.probe) for g in gaps)


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
    text = say("torch {version}", version=torch.version or "(version not known)")
    backend = torch.backend
    if backend is not None and (torch.version is None or torch.version.local is None):
        text = join_sentences(text, say("({backend})", backend=backend.label))
    return text


def gpu_words(gpus: tuple[Gpu, ...]) -> str:
    """How a sentence names GPUs: ``GPU 0, 1 (Tesla V100, 7.0)``."""
    kinds = dict.fromkeys(f"{g.name or 'unnamed'}, {g.capability or '?'}" for g in gpus)
    return say(
        "GPU {index} ({kinds})", index=index_words(gpus), kinds="; ".join(_some(list(kinds)))
    )


def index_words(gpus: Sequence[Gpu]) -> str:
    """Indices of GPUs: ``0, 1``, ``0-7``, and of very many the first ones and a number."""
    runs: list[list[int]] = []
    for gpu in gpus:
        if runs and gpu.index == runs[-1][-1] + 1:
            runs[-1].append(gpu.index)
        else:
            runs.append([gpu.index])
    parts = [
        word
        for run in runs
        for word in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run))
    ]
    return ", ".join(_some(parts))


def _some(words: list[str]) -> list[str]:
    """The first of many words, and how many more there are."""
    return (
        words
        if len(words) <= _MANY
        else [*words[:_MANY], say("{more_count} more", more_count=len(words) - _MANY)]
    )
