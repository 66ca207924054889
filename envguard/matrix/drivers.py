"""Drivers and toolkits: what a CUDA release needs, what branches offer, compilers, uv."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from envguard.errors import MatrixError
from envguard.facts.machine import OperatingSystem
from envguard.facts.versions import Backend, ComputeCapability, CudaVersion, DriverVersion
from envguard.matrix.rows import DriverBranch, Generation, MajorFloor, Provenance, ToolkitDriver
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.matrix.reading import Document, Row


class DriverTable:
    """The rows of ``drivers.toml``.

    Args:
        document: The decoded file.

    Raises:
        MatrixError: A row misses a field or a field has the wrong form.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.toolkits = tuple(row.build(ToolkitDriver) for row in document.rows("toolkit_driver"))
        floors = document.rows("minor_version_compat")
        self.floors = tuple(row.build(MajorFloor) for row in floors)
        self.branches = tuple(_read_branch(row) for row in document.rows("driver_branch"))
        self.generations = tuple(row.build(Generation) for row in document.rows("generation"))
        self._first_patch: dict[CudaVersion, ToolkitDriver] = {}
        for toolkit in sorted(self.toolkits, key=lambda row: row.toolkit):
            self._first_patch.setdefault(toolkit.cuda, toolkit)
        self._by_linux = sorted(self.branches, key=lambda row: row.branch)
        self._by_windows = sorted(self.branches, key=lambda row: row.windows)

    def toolkit_driver(self, cuda: CudaVersion) -> ToolkitDriver | None:
        """The driver that came with the first release of a CUDA major.minor.

        Args:
            cuda: Major and minor; 12.8 finds the row of 12.8.0, not of 12.8.1.

        Returns:
            The row of the lowest patch release; None for a CUDA that is not recorded.
        """
        return self._first_patch.get(cuda)

    def major_floor(self, major: int) -> MajorFloor | None:
        """The oldest driver of minor-version compatibility within a CUDA major, or None."""
        return next((row for row in self.floors if row.major == major), None)

    def branch_of(self, driver: DriverVersion, system: OperatingSystem) -> DriverBranch | None:
        """The branch that a driver belongs to.

        Args:
            driver: Its version.
            system: Whose numbering it follows; drivers seen from WSL are Windows ones.

        Returns:
            The branch of that number, or the nearest older one recorded: a driver is never older
            than its branch, so what the row states is the least that the driver offers. None
            for a driver older than every row.
        """
        is_windows = system is OperatingSystem.WINDOWS
        rows = self._by_windows if is_windows else self._by_linux
        firsts = [row.windows[0] if is_windows else row.branch for row in rows]
        position = bisect_right(firsts, driver.branch)
        return rows[position - 1] if position else None

    def cuda_of_driver(self, driver: DriverVersion, system: OperatingSystem) -> CudaVersion | None:
        """The newest CUDA that a driver supports, at least; None when older than every row."""
        row = self.branch_of(driver, system)
        return row.cuda if row else None

    def generation_of(self, capability: ComputeCapability) -> Generation | None:
        """The GPU architecture of a compute capability, or None."""
        return next((row for row in self.generations if row.covers(capability)), None)

    @property
    def newest_branch(self) -> DriverBranch:
        """The newest driver branch recorded."""
        return self._by_linux[-1]


def _read_branch(row: Row) -> DriverBranch:
    branch = row.build(DriverBranch)
    if branch.windows[0] > branch.windows[1]:
        raise row.error("windows", "expected the first and the last branch number")
    return branch


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
