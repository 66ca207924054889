"""Queries that few commands need: compilers, forward compatibility, support life, uv."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.errors import MatrixError
from envguard.facts.versions import Backend, ComputeCapability, CudaVersion, DriverVersion
from envguard.matrix.rows import Provenance

if TYPE_CHECKING:
    from envguard.matrix.reading import Document


@dataclass(frozen=True, slots=True)
class ToolkitTargets:
    """The oldest GPUs that the compiler of a CUDA major can still produce code for."""

    major: int
    oldest: ComputeCapability
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class ForwardCompat:
    """Kernel driver branches that the cuda-compat package of a CUDA release works on.

    Args:
        cuda: The release.
        base_branches: Branches, oldest first.
    """

    cuda: CudaVersion
    base_branches: tuple[int, ...]
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class BranchSupport:
    """Support life of a data-center driver branch.

    Args:
        branch: Its number.
        kind: As NVIDIA calls it: ``LTSB``, ``production`` ...
        end_of_life: Year and month; None when not recorded.
    """

    branch: int
    kind: str
    provenance: Provenance
    end_of_life: str | None = None


@dataclass(frozen=True, slots=True)
class HostCompiler:
    """Host compilers that a CUDA toolkit's nvcc accepts.

    Args:
        cuda: The toolkit.
        gcc_min: Oldest accepted major of GCC.
        gcc_max: Newest accepted major of GCC.
        clang_max: Newest accepted major of clang; None when not recorded.
    """

    cuda: CudaVersion
    gcc_min: int
    gcc_max: int
    provenance: Provenance
    clang_max: int | None = None


@dataclass(frozen=True, slots=True)
class UvDriver:
    """The oldest drivers for which ``uv --torch-backend=auto`` offers a backend."""

    backend: Backend
    linux: DriverVersion
    windows: DriverVersion
    provenance: Provenance


class SupportTable:
    """The rows of ``drivers.toml`` beside the fit of drivers.

    Args:
        document: The decoded file.

    Raises:
        MatrixError: A row misses a field or a field has the wrong form.
    """

    def __init__(self, document: Document) -> None:
        self.toolkit_targets = tuple(
            row.build(ToolkitTargets) for row in document.rows("toolkit_targets")
        )
        self.forward_compat = tuple(
            row.build(ForwardCompat) for row in document.rows("forward_compat")
        )
        self.branch_support = tuple(
            row.build(BranchSupport) for row in document.rows("branch_support")
        )

    def oldest_target(self, cuda: CudaVersion) -> ComputeCapability | None:
        """The oldest GPU that a CUDA release still compiles for; None when not recorded."""
        rows = (row for row in self.toolkit_targets if row.major == cuda.major)
        return next((row.oldest for row in rows), None)

    def forward_compat_of(self, cuda: CudaVersion) -> ForwardCompat | None:
        """Where the cuda-compat package of a release works; None when not recorded."""
        return next((row for row in self.forward_compat if row.cuda == cuda), None)

    def support_of(self, branch: int) -> BranchSupport | None:
        """The support life of a driver branch; None when not recorded."""
        return next((row for row in self.branch_support if row.branch == branch), None)


class ToolkitTable:
    """The rows of ``toolkits.toml``.

    Args:
        document: The decoded file.

    Raises:
        MatrixError: A row misses a field or a field has the wrong form.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.host_compilers = tuple(
            row.build(HostCompiler) for row in document.rows("host_compiler")
        )

    def host_compiler(self, cuda: CudaVersion) -> HostCompiler | None:
        """What a toolkit's nvcc accepts as host compiler; None when not recorded."""
        return next((row for row in self.host_compilers if row.cuda == cuda), None)


class UvTable:
    """The rows of ``uv.toml``.

    Args:
        document: The decoded file.

    Raises:
        MatrixError: A row misses a field or a field has the wrong form.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.drivers = tuple(row.build(UvDriver) for row in document.rows("uv_driver"))
        self.routed_packages = _read_names(document, "routed_packages")
        self.system_packages = _read_names(document, "system_packages")


def _read_names(document: Document, key: str) -> tuple[str, ...]:
    names = document.data.get(key)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise MatrixError(f"{document.name}: {key}: expected a list of texts")
    return tuple(names)
