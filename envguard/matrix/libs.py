"""Queries about what comes with torch: CUDA libraries, requirements, companions, machine code."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.facts.codec import WordsOf
from envguard.facts.machine import Platform
from envguard.facts.versions import Backend, CodeTarget
from envguard.matrix.rows import Provenance
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.matrix.reading import Document, Row


@dataclass(frozen=True, slots=True)
class LibraryRow:
    """cuDNN and NCCL of the builds of one torch series with one backend.

    Args:
        series: Major and minor of torch.
        backend: The backend.
        cudnn: As text.
        nccl: As text; None when not recorded.
    """

    series: Version
    backend: Backend
    cudnn: str
    provenance: Provenance
    nccl: str | None = None


@dataclass(frozen=True, slots=True)
class WheelRequirements:
    """What PyPI's Linux x86_64 wheel of a release requires of NVIDIA packages and triton.

    Args:
        torch: The release.
        commit: Commit it was built from.
        requires: Requirements as its metadata states them, without markers.
        triton_marker: Marker of the triton requirement, empty when it needs none.
    """

    torch: Version
    commit: str
    requires: tuple[str, ...]
    provenance: Provenance
    triton_marker: str = ""


@dataclass(frozen=True, slots=True)
class Companion:
    """A release of torchvision or torchaudio.

    Args:
        package: Normalised name.
        version: Its version.
        torch: The torch that PyPI's wheel requires; empty admits any.
        backend: What PyPI's Linux x86_64 wheel was built for.
        tag: Tag of that wheel; ``py3-none`` wheels use torch's stable ABI.
    """

    package: str
    version: Version
    torch: SpecifierSet
    backend: Backend
    tag: str
    provenance: Provenance


class CudaMatch(Enum):
    """What of its own CUDA a companion compares with torch's when it is imported."""

    MINOR = "minor"
    MAJOR = "major"


@dataclass(frozen=True, slots=True)
class MatchRow:
    """Releases of a companion that compare.

    Args:
        package: Normalised name.
        compares: What they compare.
        since: The first of them; None for all before the last.
        before: The first that does not any more; None where none is known.
    """

    package: str
    compares: CudaMatch
    provenance: Provenance
    since: Version | None = None
    before: Version | None = None

    def concerns(self, package: str, version: Version) -> bool:
        """Whether a release is one of those; a local label does not matter."""
        public = Version(version.public)
        is_late = self.since is None or self.since <= public
        is_early = self.before is None or public < self.before
        return self.package == package and is_late and is_early


@dataclass(frozen=True, slots=True)
class MachineCode:
    """How many cubins and PTX texts ``libtorch_cuda`` of a published wheel holds.

    Args:
        torch: The release.
        platform: Where it runs.
        file: Name of the wheel.
        cubins: Code targets with their numbers; linked NVIDIA libraries are counted too. Rows
            whose source is no wheel of that name count ``sm_90a`` as ``sm_90``.
        ptx: Likewise.
    """

    torch: Version
    platform: Platform
    file: str
    cubins: Mapping[CodeTarget, int]
    ptx: Mapping[CodeTarget, int]
    provenance: Provenance

    @property
    def counts(self) -> tuple[tuple[CodeTarget, int], ...]:
        """All code targets with their numbers."""
        return (*self.cubins.items(), *self.ptx.items())


@dataclass(frozen=True, slots=True)
class OtherVendors:
    """Builds of a release for other vendors' devices, which envguard names and does not judge.

    Args:
        torch: The release.
        rocm: Labels on the index; empty when not recorded.
        xpu: Whether there is an XPU build; None when not known.
    """

    torch: Version
    xpu: bool | None
    provenance: Provenance
    rocm: WordsOf[str] = ()


class LibsTable:
    """The rows of ``torch_libs.toml``.

    Args:
        document: The decoded file.

    Raises:
        MatrixError: A row misses a field or a field has the wrong form.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.libraries = tuple(row.build(LibraryRow) for row in document.rows("libs"))
        self.requirements = tuple(row.build(WheelRequirements) for row in document.rows("requires"))
        self.companions = tuple(row.build(Companion) for row in document.rows("companion"))
        self.machine_code = tuple(row.build(MachineCode) for row in document.rows("fatbin"))
        self.other_vendors = tuple(_vendors(row) for row in document.rows("other_vendor"))
        self._matches = tuple(row.build(MatchRow) for row in document.rows("cuda_match"))

    def libraries_of(self, torch: Version, backend: Backend) -> LibraryRow | None:
        """The cuDNN and NCCL of a build; None when not recorded."""
        series = torch.release[:2]
        rows = (row for row in self.libraries if row.series.release == series)
        return next((row for row in rows if row.backend == backend), None)

    def requirements_of(self, torch: Version) -> WheelRequirements | None:
        """What PyPI's Linux x86_64 wheel of a release requires; None when not recorded."""
        rows = (row for row in self.requirements if row.torch.release == torch.release)
        return next(rows, None)

    def companion(self, package: str, version: Version) -> Companion | None:
        """A release of torchvision or torchaudio; a local label does not matter."""
        rows = (row for row in self.companions if row.package == package)
        return next((row for row in rows if row.version.release == version.release), None)

    def companions_for(self, package: str, torch: Version) -> tuple[Companion, ...]:
        """The releases of a companion that admit a torch release, oldest first."""
        public = Version(torch.public)
        return tuple(
            row
            for row in self.companions
            if row.package == package and row.torch.contains(public, prereleases=True)
        )

    def cuda_match(self, package: str, version: Version) -> CudaMatch | None:
        """What a companion compares with ``torch.version.cuda`` at import; None for nothing."""
        rows = (row for row in self._matches if row.concerns(package, version))
        return next((row.compares for row in rows), None)

    def other_vendors_of(self, torch: Version) -> OtherVendors | None:
        """ROCm and XPU builds of a release; None when not recorded."""
        rows = (row for row in self.other_vendors if row.torch.release == torch.release)
        return next(rows, None)


def _vendors(row: Row) -> OtherVendors:
    has_xpu = {"yes": True, "no": False}.get(row.text("xpu"))
    return row.build(OtherVendors, xpu=has_xpu)
