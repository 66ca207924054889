"""Queries about machines and containers: kernel modules, device lists, defaults, rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.facts.codec import WordsOf
from envguard.facts.machine import KernelModule
from envguard.facts.versions import ComputeCapability, CudaVersion
from envguard.matrix.rows import Provenance
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.facts.findings import Source
    from envguard.matrix.reading import Document


@dataclass(frozen=True, slots=True)
class ModuleLimit:
    """GPUs that a flavour of the kernel module does not drive.

    Args:
        flavour: The flavour.
        first: Lowest compute capability, inclusive; None for no lower bound.
        last: Highest compute capability, inclusive; None for no upper bound.
        product: Only products whose name holds this word; empty for all.
    """

    flavour: KernelModule
    provenance: Provenance
    first: ComputeCapability | None = None
    last: ComputeCapability | None = None
    product: str = ""

    def covers(self, capability: ComputeCapability, name: str) -> bool:
        """Whether a GPU is one of those."""
        is_above = self.first is None or self.first <= capability
        is_below = self.last is None or capability <= self.last
        return is_above and is_below and self.product.lower() in name.lower()


@dataclass(frozen=True, slots=True)
class UuidList:
    """A package that cannot read UUIDs in ``CUDA_VISIBLE_DEVICES``.

    Args:
        package: Its normalised name.
        versions: Which releases; empty for all.
        effect: What happens, as the second half of a sentence.
    """

    package: str
    versions: SpecifierSet
    effect: str
    provenance: Provenance

    def concerns(self, version: Version) -> bool:
        """Whether a release is one of those; a local label does not matter."""
        return self.versions.contains(version.public, prereleases=True)


@dataclass(frozen=True, slots=True)
class Needing:
    """Packages without a table of their own that need torch or a GPU.

    Args:
        what: ``torch`` or ``gpu``.
        packages: Their normalised names.
    """

    what: Literal["torch", "gpu"]
    packages: WordsOf[str]
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class ContainerImage:
    """A release of a vendor's container image that holds a torch of its own.

    Args:
        repository: Without a tag.
        tag: The release, with which its tags begin.
        torch: Its torch.
        cuda: The CUDA that it was built with.
    """

    repository: str
    tag: str
    torch: Version
    cuda: CudaVersion
    provenance: Provenance


class MachineTable:
    """The rows of ``machines.toml``.

    Args:
        document: The decoded file.

    Raises:
        MatrixError: A row misses a field or a field has the wrong form.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.module_limits = tuple(row.build(ModuleLimit) for row in document.rows("kernel_module"))
        self.uuid_lists = tuple(row.build(UuidList) for row in document.rows("uuid_list"))
        self.needs = {
            name: needing.what
            for needing in (row.build(Needing) for row in document.rows("needing"))
            for name in needing.packages
        }
        self.images = tuple(row.build(ContainerImage) for row in document.rows("image"))
        self._sizes = {row.text("name"): row.integer("bytes") for row in document.rows("size")}
        self._rules = {row.text("name"): row.provenance() for row in document.rows("rule")}

    def limit_of(
        self, flavour: KernelModule, capability: ComputeCapability, name: str
    ) -> ModuleLimit | None:
        """Why a flavour of the kernel module does not drive a GPU; None when it does."""
        rows = (row for row in self.module_limits if row.flavour is flavour)
        return next((row for row in rows if row.covers(capability, name)), None)

    def image(self, name: str) -> ContainerImage | None:
        """What a vendor's image of this name and tag holds; None where that is not recorded."""
        repository, _, tag = name.partition(":")
        of_it = (image for image in self.images if image.repository == repository)
        return next((i for i in of_it if tag == i.tag or tag.startswith(f"{i.tag}-")), None)

    def size(self, name: str) -> int:
        """A default size in bytes, e.g. ``docker-shm``."""
        return self._sizes[name]

    def source(self, rule: str) -> Source:
        """Where a rule can be read, e.g. ``wsl-driver``."""
        return self._rules[rule].source
