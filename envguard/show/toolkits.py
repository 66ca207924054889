"""The toolkits table: what each CUDA toolkit compiles with, and for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.show.view import Grid, View

if TYPE_CHECKING:
    from envguard.facts.machine import Gpu
    from envguard.facts.versions import CudaVersion
    from envguard.matrix.loader import Matrix
    from envguard.matrix.support_table import HostCompiler
    from envguard.show.target import Target

_NOTE = (
    "a toolkit is only needed to compile extensions; torch's wheels bring the libraries they need"
)


def show_toolkits(matrix: Matrix, name: str, target: Target | None) -> View:
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
    matrix: Matrix, row: HostCompiler, target: Target | None, *, is_marked: bool
) -> tuple[str, ...]:
    oldest = matrix.support.oldest_target(row.cuda)
    cells = (
        str(row.cuda),
        f"{row.gcc_min} - {row.gcc_max}",
        str(row.clang_max or "-"),
        str(oldest or "-"),
    )
    return (*cells, _mark(matrix, row, target)) if is_marked and target else cells


def _mark(matrix: Matrix, row: HostCompiler, target: Target) -> str:
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
