"""Libraries that several files would serve, and which of them the loader takes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from envguard.binary.library import Library, is_cuda_library, is_torch_library
from envguard.facts.binary import Shadowing

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.binary.process import Mapped, Process
    from envguard.binary.torch_process import TorchProcess

_RUNTIME = frozenset({"libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1"})


def find_shadows(torch: TorchProcess, folders: tuple[Path, ...]) -> tuple[Shadowing, ...]:
    """Which libraries of torch's process could have come from elsewhere.

    Args:
        torch: The process after ``import torch``.
        folders: The environment's, which tell a packaged library from a system's.

    Returns:
        CUDA's, torch's and the compiler's libraries with more than one candidate, by name.
    """
    homes = [os.path.realpath(folder) + "/" for folder in folders]
    found: dict[str, Shadowing] = {}
    for opened in torch.opened:
        for mapped in opened.fresh[1:]:
            for name in _watched_names(mapped):
                others = _others(torch.process, mapped, name)
                if others and name not in found:
                    found[name] = _shadowing(name, mapped, others, homes)
    return tuple(found[name] for name in sorted(found))


def _watched_names(mapped: Mapped) -> tuple[str, ...]:
    name = mapped.library.dynamic.soname or mapped.path.rpartition("/")[2]
    is_watched = is_cuda_library(name) or is_torch_library(name) or name in _RUNTIME
    return (name,) if is_watched else ()


def _others(process: Process, winner: Mapped, name: str) -> tuple[str, ...]:
    """Different files that the loader would have taken next, each once."""
    libraries = process.libraries
    seen = {libraries.identity(winner.path)}
    others = []
    for path, _ in process.candidates(name, winner.loader):
        identity, library = libraries.identity(path), libraries.get(path)
        if isinstance(library, Library) and identity not in seen:
            seen.add(identity)
            if library.machine == process.system.machine:
                others.append(path)
    return tuple(others)


def _shadowing(name: str, winner: Mapped, others: tuple[str, ...], homes: list[str]) -> Shadowing:
    real = os.path.realpath(winner.path)
    return Shadowing(
        name=name,
        needed_by=winner.loader.path if winner.loader else "",
        winner=winner.path,
        found_by=winner.found_by,
        others=others,
        in_environment=real.startswith(tuple(homes)),
    )
