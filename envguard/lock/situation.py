"""What is settled before the resolver starts: torch build, Python, platform and the GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.facts.versions import ComputeCapability, CudaVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.specifiers import SpecifierSet

    from envguard.lock.request import LockRequest
    from envguard.matrix.rows import TorchBuildRow


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts that rows of the matrix are compared with.

    Args:
        torch: Public version of the torch build.
        cuda: Its CUDA; None for a CPU build.
        python: Version with three parts.
        system: ``linux``, ``windows`` or ``macos``.
        capability: The lowest compute capability among the machines' GPUs; None when not known.
    """

    torch: Version
    cuda: CudaVersion | None
    python: Version
    system: str
    capability: ComputeCapability | None = None

    @property
    def versions(self) -> Mapping[str, Version]:
        """By the names that conditions use."""
        found = {"torch": self.torch, "python": self.python}
        if self.cuda is not None:
            found["torch_cuda"] = Version(str(self.cuda))
        return found

    @property
    def words(self) -> str:
        """The build, for a sentence."""
        return f"torch {self.torch} for {f'CUDA {self.cuda}' if self.cuda else 'the CPU'}"


def situation_of(build: TorchBuildRow, request: LockRequest) -> Situation:
    """What is settled when a build is tried for a request."""
    capabilities = [
        gpu.capability
        for machine in request.machines
        for gpu in machine.selected_gpus
        if gpu.capability is not None
    ]
    python = request.target.python
    return Situation(
        torch=build.version,
        cuda=build.backend.cuda,
        python=Version(f"{python.major}.{python.minor}.0"),
        system=build.platform.system.value,
        capability=min(capabilities, default=None),
    )


def admits(bound: SpecifierSet, version: Version) -> bool:
    """Whether a specifier holds a version; a local label does not matter."""
    return bound.contains(version.public, prereleases=True)
