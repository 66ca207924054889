"""Queries about what comes with torch: CUDA libraries, requirements, companions, machine code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.facts.machine import Platform
from envguard.facts.versions import Backend, CodeTarget
from envguard.matrix.rows import Provenance

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
    nccl: str | None
    provenance: Provenance


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
    triton_marker: str
    provenance: Provenance


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
class MachineCode:
    """How many cubins and PTX texts ``libtorch_cuda`` of a published wheel holds.

    Args:
        torch: The release.
        platform: Where it runs.
        file: Name of the wheel.
        counts: Code targets with their numbers; linked NVIDIA libraries are counted too. Rows
            whose source is no wheel of that name count ``sm_90a`` as ``sm_90``.
    """

    torch: Version
    platform: Platform
    file: str
    counts: tuple[tuple[CodeTarget, int], ...]
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class OtherVendors:
    """Builds of a release for other vendors' devices, which envguard names and does not judge.

    Args:
        torch: The release.
        rocm: Labels on the index; empty when not recorded.
        xpu: Whether there is an XPU build; None when not known.
    """

    torch: Version
    rocm: tuple[str, ...]
    xpu: bool | None
    provenance: Provenance


class LibsTable:
    """The rows of ``torch_libs.toml``.

    Args:
        document: The decoded file.

    Raises:
        MatrixError: A row misses a field or a field has the wrong form.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.libraries = tuple(_read_library(row) for row in document.rows("libs"))
        self.requirements = tuple(_read_requires(row) for row in document.rows("requires"))
        self.companions = tuple(_read_companion(row) for row in document.rows("companion"))
        self.machine_code = tuple(_read_code(row) for row in document.rows("fatbin"))
        self.other_vendors = tuple(_read_vendors(row) for row in document.rows("other_vendor"))
        self._matches = tuple(_read_match(row) for row in document.rows("cuda_match"))

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
        for name, since, before, match in self._matches:
            if name == package and since <= Version(version.public) < before:
                return match
        return None

    def other_vendors_of(self, torch: Version) -> OtherVendors | None:
        """ROCm and XPU builds of a release; None when not recorded."""
        rows = (row for row in self.other_vendors if row.torch.release == torch.release)
        return next(rows, None)


def _read_library(row: Row) -> LibraryRow:
    return LibraryRow(
        row.value("series", Version),
        row.value("backend", Backend.parse),
        row.text("cudnn"),
        row.text("nccl") if row.has("nccl") else None,
        row.provenance(),
    )


def _read_requires(row: Row) -> WheelRequirements:
    return WheelRequirements(
        row.value("torch", Version),
        row.text("commit"),
        row.texts("requires"),
        row.text("triton_marker") if row.has("triton_marker") else "",
        row.provenance(),
    )


def _read_companion(row: Row) -> Companion:
    return Companion(
        row.text("package"),
        row.value("version", Version),
        row.value("torch", SpecifierSet),
        row.value("backend", Backend.parse),
        row.text("tag"),
        row.provenance(),
    )


def _read_match(row: Row) -> tuple[str, Version, Version, CudaMatch]:
    row.provenance()  # proven here, reported by verify
    return (
        row.text("package"),
        row.optional("since", Version) or Version("0"),
        row.optional("before", Version) or Version("9999"),
        row.value("compares", CudaMatch),
    )


def _read_code(row: Row) -> MachineCode:
    counts = []
    for field in ("cubins", "ptx"):
        table = row.data.get(field)
        if not isinstance(table, dict) or not all(type(n) is int for n in table.values()):
            raise row.error(field, "expected a count for each code target")
        for text, count in table.items():
            try:
                counts.append((CodeTarget.parse(text), count))
            except ValueError as err:
                raise row.error(f"{field}.{text}", str(err)) from err
    return MachineCode(
        row.value("torch", Version),
        row.value("platform", Platform.parse),
        row.text("file"),
        tuple(counts),
        row.provenance(),
    )


def _read_vendors(row: Row) -> OtherVendors:
    return OtherVendors(
        row.value("torch", Version),
        row.words("rocm") if row.has("rocm") else (),
        {"yes": True, "no": False}.get(row.text("xpu")),
        row.provenance(),
    )
