"""The two rules everything rests on: does this driver serve that CUDA, does this code run there."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from envguard.facts.findings import Source
from envguard.facts.machine import OperatingSystem
from envguard.facts.versions import (
    CodeKind,
    CodeTarget,
    ComputeCapability,
    CudaVersion,
    DriverVersion,
)
from envguard.matrix.rows import minimum_for
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from envguard.facts.machine import Driver, Host
    from envguard.matrix.drivers import DriverTable
    from envguard.matrix.rows import DriverBranch, MajorFloor, ToolkitDriver


_MINOR_COMPATIBILITY_SINCE = CudaVersion(11, 1)
_JETSON_RUNS_SERVER_CODE_SINCE = CudaVersion(13, 2)
# Integrated (Tegra) parts: they run only code compiled for themselves.
_INTEGRATED = frozenset(ComputeCapability(*cc) for cc in ((5, 3), (6, 2), (7, 2), (8, 7), (11, 0)))
# What server code covers them from CUDA 13.2 on.
_SERVER_CODE_FOR_JETSON = {
    ComputeCapability(7, 2): frozenset({ComputeCapability(7, 0)}),
    ComputeCapability(8, 7): frozenset({ComputeCapability(8, 0), ComputeCapability(8, 6)}),
}


class DriverGrade(Enum):
    """How well a driver serves a CUDA runtime, best first."""

    EXACT = "exact"
    SAME_MAJOR = "same-major"
    FORWARD_COMPAT = "forward-compat"
    UNKNOWN = "unknown"
    NO = "no"

    @property
    def serves(self) -> bool:
        """Programs start; what is lost under it is another matter."""
        return self in {DriverGrade.EXACT, DriverGrade.SAME_MAJOR, DriverGrade.FORWARD_COMPAT}

    @property
    def can_jit(self) -> bool | None:
        """PTX made by this runtime can be compiled by the driver; None when not known."""
        match self:
            case DriverGrade.EXACT | DriverGrade.FORWARD_COMPAT:
                return True
            case DriverGrade.SAME_MAJOR | DriverGrade.NO:
                return False
            case DriverGrade.UNKNOWN:
                return None


@dataclass(frozen=True, slots=True)
class DriverFit:
    """The grade with the two numbers behind it.

    Args:
        grade: The grade.
        exact: Oldest driver of the ``exact`` grade; None when the matrix does not know.
        floor: Oldest driver of the ``same-major`` grade; None when there is no such grade.
        source: Where the numbers can be read.
    """

    grade: DriverGrade
    exact: DriverVersion | None
    floor: DriverVersion | None
    source: Source | None


def driver_system(host: Host) -> OperatingSystem:
    """Whose driver numbering applies: inside WSL the driver is the Windows one."""
    if host.is_wsl:
        return OperatingSystem.WINDOWS
    return host.platform.system if host.platform else OperatingSystem.LINUX


def grade_driver(driver: Driver, host: Host, cuda: CudaVersion, table: DriverTable) -> DriverFit:
    """Grade a driver against a CUDA runtime.

    The kernel-mode driver's version decides; the API version that libcuda reports decides where
    no version is known, and raises the grade to ``forward-compat`` where it is newer than the
    kernel driver's branch, because then a compatibility libcuda is in use.

    Args:
        driver: What is known of the driver.
        host: For the numbering (Windows, WSL).
        cuda: The runtime, e.g. 12.8 for ``cu128``.
        table: Minimum drivers.

    Returns:
        The fit; grade UNKNOWN when neither version nor API version is known.
    """
    system = driver_system(host)
    toolkit, floor_row = table.toolkit_driver(cuda), table.major_floor(cuda.major)
    exact = minimum_for(toolkit, system) if toolkit else None
    has_floor = floor_row is not None and cuda >= _MINOR_COMPATIBILITY_SINCE
    floor = minimum_for(floor_row, system) if floor_row and has_floor else None
    # Tegra drivers are numbered on their own: only the API version compares.
    is_tegra = bool(host.jetson) and driver.cuda is not None
    if driver.version is not None and not is_tegra:
        branch = table.branch_of(driver.version, system)
        grade = _grade_version(driver.version, cuda, exact, floor, branch)
        if driver.cuda is not None and _is_compat(driver, branch) and driver.cuda >= cuda:
            grade = grade if grade is DriverGrade.EXACT else DriverGrade.FORWARD_COMPAT
    else:
        grade = _grade_api(driver.cuda, cuda)
    return DriverFit(grade, exact, floor, _source_of(toolkit, floor_row))


def _source_of(toolkit: ToolkitDriver | None, floor: MajorFloor | None) -> Source | None:
    row = toolkit or floor
    return row.provenance.source if row else None


def _grade_version(
    version: DriverVersion,
    cuda: CudaVersion,
    exact: DriverVersion | None,
    floor: DriverVersion | None,
    branch: DriverBranch | None,
) -> DriverGrade:
    if exact is not None and version >= exact:
        return DriverGrade.EXACT
    if exact is None and branch is not None and branch.cuda >= cuda:
        return DriverGrade.EXACT
    if floor is not None and version >= floor:
        return DriverGrade.SAME_MAJOR
    is_known = exact is not None or floor is not None
    # Compatibility ends at the major version, whatever a later CUDA will need.
    is_of_older_major = branch is not None and branch.cuda.major < cuda.major
    return DriverGrade.NO if is_known or is_of_older_major else DriverGrade.UNKNOWN


def _grade_api(api: CudaVersion | None, cuda: CudaVersion) -> DriverGrade:
    if api is None:
        return DriverGrade.UNKNOWN
    if api >= cuda:
        return DriverGrade.EXACT
    if api.major < cuda.major or cuda < _MINOR_COMPATIBILITY_SINCE:
        return DriverGrade.NO
    # 11.0 drivers before 450.80.02 are below the floor; the API number cannot tell them apart.
    return DriverGrade.UNKNOWN if api == CudaVersion(11, 0) else DriverGrade.SAME_MAJOR


def _is_compat(driver: Driver, branch: DriverBranch | None) -> bool:
    newer = driver.cuda is not None and branch is not None and driver.cuda > branch.cuda
    return driver.compat_libcuda is not None or newer


def _device(capability: ComputeCapability) -> ComputeCapability:
    """10.1 is the name that CUDA 12 gave to what CUDA 13 calls 11.0."""
    if capability == ComputeCapability(10, 1):
        return ComputeCapability(11, 0)
    return capability


def needs_own_code(capability: ComputeCapability) -> bool:
    """Whether a GPU is part of a Jetson before Thor, for which servers' builds hold no code."""
    return capability in _INTEGRATED and capability < ComputeCapability(10, 1)


def cubin_runs(
    target: CodeTarget, capability: ComputeCapability, runtime: CudaVersion | None
) -> bool:
    """Whether machine code for a target runs on a GPU.

    Args:
        target: A cubin target.
        capability: What the GPU is.
        runtime: CUDA the build was made with; from 13.2 on Jetson parts run server code.

    Source: torch/cuda/__init__.py, DEVICE_REQUIREMENT; CUDA C++ programming guide, suffixes.
    """
    code, gpu = _device(target.capability), _device(capability)
    if code == gpu:
        return True
    if target.suffix == "a":
        return False
    if gpu in _INTEGRATED:
        unified = runtime is not None and runtime >= _JETSON_RUNS_SERVER_CODE_SINCE
        return unified and code in _SERVER_CODE_FOR_JETSON.get(gpu, frozenset())
    if code in _INTEGRATED:
        return False
    return code.major == gpu.major and code.minor <= gpu.minor


def ptx_covers(target: CodeTarget, capability: ComputeCapability) -> bool:
    """Whether PTX for a target can be compiled for a GPU, given a driver that can do so."""
    code, gpu = _device(target.capability), _device(capability)
    match target.suffix:
        case "a":
            return code == gpu
        case "f":
            return code.major == gpu.major and code.minor <= gpu.minor
        case _:
            return code <= gpu


class CodeGrade(Enum):
    """How a build's code reaches a GPU."""

    NATIVE = "native"
    COMPATIBLE = "compatible"
    JIT = "jit"
    JIT_BLOCKED = "jit-blocked"
    NONE = "none"
    UNKNOWN = "unknown"

    @property
    def runs(self) -> bool:
        """The GPU runs the build."""
        return self in {CodeGrade.NATIVE, CodeGrade.COMPATIBLE, CodeGrade.JIT}


@dataclass(frozen=True, slots=True)
class CodeFit:
    """How a build's code reaches a GPU, and which target does it."""

    grade: CodeGrade
    target: CodeTarget | None = None


def grade_code(
    targets: Iterable[CodeTarget] | None,
    capability: ComputeCapability,
    runtime: CudaVersion | None,
    *,
    can_jit: bool | None,
    is_ptx_known: bool = True,
) -> CodeFit:
    """Grade a build's code against a GPU.

    Args:
        targets: What the build contains; None when not known.
        capability: What the GPU is.
        runtime: CUDA the build was made with.
        can_jit: The driver can compile this runtime's PTX; None when not known.
        is_ptx_known: The absence of PTX is established.
    """
    if targets is None:
        return CodeFit(CodeGrade.UNKNOWN)
    listed = tuple(targets)
    cubins = [t for t in listed if t.kind is CodeKind.CUBIN]
    running = [t for t in cubins if cubin_runs(t, capability, runtime)]
    if running:
        best = max(running)
        same = _device(best.capability) == _device(capability)
        return CodeFit(CodeGrade.NATIVE if same else CodeGrade.COMPATIBLE, best)
    return _grade_ptx(listed, capability, can_jit=can_jit, is_ptx_known=is_ptx_known)


def _grade_ptx(
    targets: tuple[CodeTarget, ...],
    capability: ComputeCapability,
    *,
    can_jit: bool | None,
    is_ptx_known: bool,
) -> CodeFit:
    ptx = [t for t in targets if t.kind is CodeKind.PTX and ptx_covers(t, capability)]
    if not ptx:
        below = all(t.capability > capability for t in targets)
        # PTX never serves an older GPU, so a build whose oldest code is newer cannot run.
        unknown = not is_ptx_known and not below
        return CodeFit(CodeGrade.UNKNOWN if unknown else CodeGrade.NONE)
    best = max(ptx)
    match can_jit:
        case True:
            return CodeFit(CodeGrade.JIT, best)
        case False:
            return CodeFit(CodeGrade.JIT_BLOCKED, best)
        case None:
            return CodeFit(CodeGrade.UNKNOWN, best)
