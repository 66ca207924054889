"""Typed rows of the tables about drivers, GPUs and torch builds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.facts.codec import WordsOf
from envguard.facts.findings import Source
from envguard.facts.machine import OperatingSystem, Platform
from envguard.facts.versions import (
    Backend,
    CodeTarget,
    ComputeCapability,
    CudaVersion,
    DriverVersion,
)
from envguard.values import dataclass


class Confidence(Enum):
    """How a row came to be known (design section 5)."""

    BINARY = "binary"
    METADATA = "metadata"
    SCRIPT = "script"
    DOC = "doc"
    OBSERVED = "observed"
    INFERRED = "inferred"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a row comes from.

    Args:
        source: Address or artifact, with the date it was checked.
        confidence: How it came to be known.
        is_firm: False for inferred rows and rows of low certainty: these can only make a
            finding ``unknown`` or ``warn``.
        note: A remark for the reader, possibly empty.
        also: Further sources that say the same.
    """

    source: Source
    confidence: Confidence
    is_firm: bool = True
    note: str = ""
    also: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolkitDriver:
    """The driver that a CUDA toolkit release ships with: from it on every feature works.

    Args:
        toolkit: Full toolkit version, e.g. ``12.8.1``.
        linux: Driver on Linux.
        windows: Driver on Windows; None when NVIDIA gives none.
    """

    toolkit: Version
    linux: DriverVersion
    provenance: Provenance
    windows: DriverVersion | None = None

    @property
    def cuda(self) -> CudaVersion:
        """Its major.minor."""
        return CudaVersion(self.toolkit.major, self.toolkit.minor)


@dataclass(frozen=True, slots=True)
class MajorFloor:
    """The oldest driver of minor-version compatibility within one CUDA major."""

    major: int
    linux: DriverVersion
    windows: DriverVersion
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class DriverBranch:
    """A driver branch and the CUDA API version it supports.

    Args:
        branch: Linux branch number, e.g. 570.
        windows: Windows branch numbers of the same release family, first to last.
        cuda: Newest CUDA the branch supports.
        is_windows_firm: False where the Windows numbers are partly inferred.
    """

    branch: int
    windows: tuple[int, int]
    cuda: CudaVersion
    provenance: Provenance
    is_windows_firm: bool = field(default=True, metadata={"key": "windows_firm"})


@dataclass(frozen=True, slots=True)
class Generation:
    """A GPU architecture and the drivers that serve it.

    Args:
        name: ``Pascal``, ``Hopper`` ...
        first: Lowest compute capability, inclusive.
        last: Highest compute capability, inclusive.
        first_driver_linux: Oldest driver that knows it; None when not recorded.
        last_branch: Last driver branch that supports it; None when current ones do.
        first_cuda: Oldest CUDA whose compiler knows it; None when not recorded.
        aliases: Capabilities that older CUDA releases used for the same GPUs.
    """

    name: str
    first: ComputeCapability
    last: ComputeCapability
    provenance: Provenance
    first_driver_linux: DriverVersion | None = field(default=None, metadata={"key": "first_driver"})
    last_branch: int | None = None
    first_cuda: CudaVersion | None = None
    aliases: WordsOf[ComputeCapability] = ()

    def covers(self, capability: ComputeCapability) -> bool:
        """Whether a GPU of this capability belongs to it."""
        return self.first <= capability <= self.last or capability in self.aliases


class MarketSegment(Enum):
    """What a GPU is sold as; forward compatibility is for data-center parts."""

    CONSUMER = "consumer"
    WORKSTATION = "workstation"
    DATACENTER = "datacenter"
    JETSON = "jetson"


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A GPU product.

    Args:
        name: Product name without the vendor.
        capability: Its compute capability.
        segment: What it is sold as.
        chip: Name of the chip.
        other_capabilities: The same name was also sold with these.
    """

    name: str
    capability: ComputeCapability
    segment: MarketSegment
    provenance: Provenance
    chip: str = ""
    other_capabilities: WordsOf[ComputeCapability] = field(default=(), metadata={"key": "also"})


@dataclass(frozen=True, slots=True)
class TorchRelease:
    """A torch release; one per public version.

    Args:
        version: Public version.
        released: ISO date.
        requires_python: From its metadata.
        pypi: What PyPI's wheel is, per platform.
        variants: Backends published on the PyTorch index, per platform.
        unverified: Backends that may be on the index, per platform; no builds are listed for them.
        pythons: Python tags of PyPI's wheels, per platform.
        glibc: Oldest glibc that PyPI's Linux wheels run on, per platform.
        cxx11_abi: C++ ABI of PyPI's wheel, per platform.
        torchvision: Versions released for it.
        torchaudio: Versions released for it.
        triton: Version specifier of PyPI's wheel, empty when it needs none.
        cudnn: cuDNN of PyPI's Linux x86_64 wheel, as text, empty when not recorded; other builds
            are in the libs table.
        nccl: NCCL of the same wheel, likewise.
    """

    version: Version
    released: str
    requires_python: SpecifierSet
    pypi: Mapping[Platform, Backend]
    variants: Mapping[Platform, tuple[Backend, ...]]
    unverified: Mapping[Platform, tuple[Backend, ...]]
    pythons: Mapping[Platform, tuple[str, ...]]
    glibc: Mapping[Platform, Version]
    cxx11_abi: Mapping[Platform, bool]
    torchvision: WordsOf[Version]
    torchaudio: WordsOf[Version]
    provenance: Provenance
    triton: str = ""
    cudnn: str = ""
    nccl: str = ""


@dataclass(frozen=True, slots=True)
class TorchBuildRow:
    """One published build: a release x backend x platform.

    Args:
        version: Public version.
        backend: ``cu128`` or ``cpu``.
        platform: Where it runs.
        targets: Code targets, sorted; None when not recorded; empty for CPU builds.
        is_ptx_known: Whether the absence of PTX targets is established.
        pythons: Python tags of its wheels; empty when not recorded.
        glibc: Oldest glibc; None off Linux or when not recorded.
        is_on_pypi: PyPI's wheel for this platform is this build.
        cxx11_abi: C++ ABI of libtorch; None off Linux or when not recorded.
        is_verified: Its publication is established, not only announced.
        has_label: Its wheels carry the local version label.
    """

    version: Version
    backend: Backend
    platform: Platform
    targets: tuple[CodeTarget, ...] | None
    is_ptx_known: bool
    pythons: tuple[str, ...]
    glibc: Version | None
    is_on_pypi: bool
    provenance: Provenance
    cxx11_abi: bool | None = None
    is_verified: bool = True
    has_label: bool = True

    @property
    def label(self) -> str:
        """The version of its wheels on the index: ``2.11.0+cu126``."""
        return f"{self.version}+{self.backend.label}" if self.has_label else str(self.version)


def minimum_for(row: ToolkitDriver | MajorFloor, system: OperatingSystem) -> DriverVersion | None:
    """The driver column for an operating system (WSL uses Windows drivers)."""
    return row.windows if system is OperatingSystem.WINDOWS else row.linux
