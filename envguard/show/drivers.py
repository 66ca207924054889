"""The tables of drivers and toolkits: what each CUDA release needs and compiles with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.facts.machine import OperatingSystem
from envguard.fit import DriverGrade, driver_system, grade_driver
from envguard.show.target import Grid, View

if TYPE_CHECKING:
    from envguard.facts.machine import Gpu
    from envguard.facts.versions import CudaVersion
    from envguard.matrix.drivers import HostCompiler
    from envguard.matrix.loader import Matrix
    from envguard.matrix.rows import DriverBranch, Generation, ToolkitDriver
    from envguard.show.target import ShownTarget


_NOTE = (
    "a toolkit is only needed to compile extensions; torch's wheels bring the libraries they need"
)


def show_toolkits(matrix: Matrix, name: str, target: ShownTarget | None) -> View:
    """Host compilers and GPUs of CUDA toolkits.

    Args:
        matrix: The tables.
        name: A toolkit, e.g. ``12.8``; empty for all.
        target: Its GPUs, nvcc and GCC are marked; None for no marks.

    Raises:
        InputError: There is no such toolkit.
    """
    rows = [row for row in matrix.toolkits.host_compilers if name in {"", str(row.cuda)}]
    if not rows:
        known = matrix.toolkits.host_compilers
        raise InputError(
            f"toolkits {name}: no such toolkit is known",
            hint=f"there are {known[0].cuda} to {known[-1].cuda}",
        )
    is_marked = target is not None and bool(
        target.machine.selected_gpus or target.machine.toolkit.nvcc or target.machine.toolkit.gcc
    )
    columns = ("CUDA", "GCC", "clang up to", "oldest GPU")
    grid = Grid(
        "CUDA toolkits",
        (*columns, "for this machine") if is_marked else columns,
        tuple(_row(matrix, row, target, is_marked=is_marked) for row in reversed(rows)),
        wrapping=1 if is_marked else 0,
    )
    return View((grid,), notes=(_NOTE,))


def _row(
    matrix: Matrix, row: HostCompiler, target: ShownTarget | None, *, is_marked: bool
) -> tuple[str, ...]:
    oldest = matrix.support.oldest_target(row.cuda)
    cells = (
        str(row.cuda),
        f"{row.gcc_min} - {row.gcc_max}",
        str(row.clang_max or "-"),
        str(oldest or "-"),
    )
    return (*cells, _mark_toolkit(matrix, row, target)) if is_marked and target else cells


def _mark_toolkit(matrix: Matrix, row: HostCompiler, target: ShownTarget) -> str:
    toolkit = target.machine.toolkit
    reasons = [
        reason
        for gpu in target.machine.selected_gpus
        if (reason := _cannot_compile(matrix, row.cuda, gpu))
    ]
    if toolkit.gcc is not None and not row.gcc_min <= toolkit.gcc.major <= row.gcc_max:
        reasons.append(f"it does not take GCC {toolkit.gcc.major}")
    mark = f"no: {'; '.join(dict.fromkeys(reasons))}" if reasons else "yes"
    return f"{mark} (nvcc here)" if toolkit.nvcc == row.cuda else mark


def _cannot_compile(matrix: Matrix, cuda: CudaVersion, gpu: Gpu) -> str:
    """Why a toolkit makes no code for a GPU; empty when it does, or that is not known."""
    if gpu.capability is None:
        return ""
    oldest = matrix.support.oldest_target(cuda)
    generation = matrix.drivers.generation_of(gpu.capability)
    first = generation.first_cuda if generation else None
    if oldest is not None and gpu.capability < oldest:
        return f"it compiles from {oldest} on, the GPU is {gpu.capability}"
    if first is not None and cuda < first:
        return f"CUDA {first} is the first that compiles for {gpu.capability}"
    return ""


_MARKS = {
    DriverGrade.EXACT: "yes",
    DriverGrade.SAME_MAJOR: "most",
    DriverGrade.FORWARD_COMPAT: "compat",
    DriverGrade.UNKNOWN: "?",
    DriverGrade.NO: "no",
}
_LEGEND = (
    "Linux, Windows: from that driver on everything of that CUDA works",
    "same major: from that driver on programs of that CUDA major run, except what needs PTX or "
    "newer features (minor-version compatibility)",
)
_MARK_LEGEND = (
    "yes: serves it fully; most: through minor-version compatibility; compat: through a "
    "compatibility libcuda; no: does not serve it",
)


def show_drivers(matrix: Matrix, name: str, target: ShownTarget | None) -> View:
    """CUDA releases with their drivers, driver branches, GPU generations.

    Args:
        matrix: The tables.
        name: A CUDA release (``12.8``) or a branch (``535``, ``R535``); empty for all.
        target: Its driver and GPUs are marked; None for no marks.

    Raises:
        InputError: There is no such CUDA release or branch.
    """
    branch = name.upper().removeprefix("R")
    cudas = tuple(row for row in _cudas(matrix) if name in {"", str(row.cuda)})
    branches = tuple(
        row
        for row in matrix.drivers.branches
        if not name or str(row.branch) == branch or str(row.cuda) == name
    )
    if not cudas and not branches:
        raise InputError(
            f"drivers {name}: no such CUDA release or driver branch is known",
            hint="CUDA as 12.8, branches as 535",
        )
    grids = [_cuda_grid(matrix, cudas, target), _branch_grid(matrix, branches, target)]
    if not name:
        grids.append(_generation_grid(matrix, target))
    legend = _LEGEND if cudas else ()
    if target is not None and target.has_driver:
        legend = (*legend, *_MARK_LEGEND)
    return View(tuple(grid for grid in grids if grid.rows), legend)


def _cudas(matrix: Matrix) -> tuple[ToolkitDriver, ...]:
    """The first release of each CUDA minor, newest first."""
    releases = {row.cuda for row in matrix.drivers.toolkits}
    found = (matrix.drivers.toolkit_driver(cuda) for cuda in sorted(releases, reverse=True))
    return tuple(row for row in found if row is not None)


def _cuda_grid(matrix: Matrix, rows: tuple[ToolkitDriver, ...], target: ShownTarget | None) -> Grid:
    columns = ("CUDA", "Linux", "Windows", "Linux, same major", "Windows, same major")
    is_marked = target is not None and target.has_driver
    return Grid(
        "CUDA releases and the drivers that serve them",
        (*columns, "this driver") if is_marked else columns,
        tuple(
            (*_cuda_row(matrix, row), *((_mark(matrix, row.cuda, target),) if is_marked else ()))
            for row in rows
        ),
        wrapping=0,
    )


def _cuda_row(matrix: Matrix, row: ToolkitDriver) -> tuple[str, ...]:
    # CUDA 11.0 came before minor-version compatibility
    floor = matrix.drivers.major_floor(row.cuda.major) if str(row.cuda) != "11.0" else None
    return (
        str(row.cuda),
        str(row.linux),
        str(row.windows or "-"),
        str(floor.linux) if floor else "-",
        str(floor.windows) if floor else "-",
    )


def _mark(matrix: Matrix, cuda: CudaVersion, target: ShownTarget | None) -> str:
    if target is None:
        return ""
    machine = target.machine
    return _MARKS[grade_driver(machine.driver, machine.host, cuda, matrix.drivers).grade]


def _branch_grid(
    matrix: Matrix, rows: tuple[DriverBranch, ...], target: ShownTarget | None
) -> Grid:
    own = _own_branch(matrix, target)
    return Grid(
        "driver branches",
        ("branch", "Windows", "CUDA", "support", "until", ""),
        tuple(
            (
                f"R{row.branch}",
                "-".join(dict.fromkeys(map(str, row.windows))),
                str(row.cuda),
                *_support(matrix, row.branch),
                "this driver" if own is row else "",
            )
            for row in sorted(rows, key=lambda row: row.branch, reverse=True)
        ),
        wrapping=0,
    )


def _own_branch(matrix: Matrix, target: ShownTarget | None) -> DriverBranch | None:
    version = target.machine.driver.version if target else None
    if target is None or version is None:
        return None
    return matrix.drivers.branch_of(version, driver_system(target.machine.host))


def _support(matrix: Matrix, branch: int) -> tuple[str, str]:
    row = matrix.support.support_of(branch)
    return (row.kind, row.end_of_life or "-") if row else ("-", "-")


def _generation_grid(matrix: Matrix, target: ShownTarget | None) -> Grid:
    gpus = target.machine.selected_gpus if target else ()
    is_marked = bool(gpus) or (target is not None and target.machine.driver.version is not None)
    columns = ("GPUs", "capability", "first driver", "last branch", "first CUDA")
    rows = []
    for row in matrix.drivers.generations:
        holds = [gpu for gpu in gpus if gpu.capability and row.covers(gpu.capability)]
        if gpus and not holds:
            continue
        cells = (
            row.name,
            str(row.first) if row.first == row.last else f"{row.first} - {row.last}",
            str(row.first_driver_linux or "-"),
            f"R{row.last_branch}" if row.last_branch else "current",
            str(row.first_cuda or "-"),
        )
        rows.append((*cells, *((generation_mark(row, target),) if is_marked else ())))
    heading = (*columns, "this driver") if is_marked else columns
    return Grid("GPU generations and the drivers that list them", heading, tuple(rows))


def generation_mark(row: Generation, target: ShownTarget | None) -> str:
    """Whether a driver lists a GPU generation, and why not; empty when no driver is known."""
    version = target.machine.driver.version if target else None
    if target is None or version is None:
        return ""
    if row.last_branch is not None and version.branch > row.last_branch:
        return f"no: R{row.last_branch} is the last branch that lists it"
    is_linux = driver_system(target.machine.host) is OperatingSystem.LINUX
    first = row.first_driver_linux
    if is_linux and first is not None and version < first:
        return f"no: {first} is the first driver that knows it"
    return "yes"
