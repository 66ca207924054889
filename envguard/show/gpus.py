"""The GPU table: products, their compute capability and the drivers that list them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.show.drivers import generation_mark
from envguard.show.target import Grid, View

if TYPE_CHECKING:
    from envguard.matrix.loader import Matrix
    from envguard.matrix.rows import GpuModel
    from envguard.show.target import ShownTarget


def show_gpus(matrix: Matrix, name: str, target: ShownTarget | None) -> View:
    """Products by name; with a driver, whether it lists them.

    Args:
        matrix: The tables.
        name: A product, in any usual spelling, or a part of its name; empty for all.
        target: Its GPUs choose the rows where no name does; its driver is marked.

    Raises:
        InputError: There is no such product.
    """
    models = _chosen(matrix, name, target)
    is_marked = target is not None and target.machine.driver.version is not None
    columns = ("GPU", "capability", "chip", "sold as", "generation", "drivers")
    grid = Grid(
        "GPU products",
        (*columns, "this driver") if is_marked else columns,
        tuple(_row(matrix, model, target, is_marked=is_marked) for model in models),
        wrapping=len(columns),  # a long name takes two lines, rather than each product six
    )
    return View((grid,))


def _chosen(matrix: Matrix, name: str, target: ShownTarget | None) -> tuple[GpuModel, ...]:
    stated = [gpu.name for gpu in target.machine.selected_gpus if gpu.name] if target else []
    if not name and stated:
        found = [model for text in stated for model in matrix.gpus.find(text)]
        return tuple(dict.fromkeys(found))
    if not name:
        return matrix.gpus.models
    part = name.lower()
    models = matrix.gpus.find(name) or tuple(
        model for model in matrix.gpus.models if part in model.name.lower()
    )
    if not models:
        near = ", ".join(matrix.gpus.suggest(name))
        raise InputError(
            f"gpus {name}: no such GPU is known", hint=f"did you mean: {near}?" if near else ""
        )
    return models


def _row(
    matrix: Matrix, model: GpuModel, target: ShownTarget | None, *, is_marked: bool
) -> tuple[str, ...]:
    generation = matrix.drivers.generation_of(model.capability)
    first = generation.first_driver_linux if generation else None
    last = generation.last_branch if generation else None
    drivers = f"{first or '?'} to {f'R{last}' if last else 'current'}" if generation else "-"
    capability = " or ".join(map(str, (model.capability, *model.other_capabilities)))
    return (
        model.name,
        capability,
        model.chip or "-",
        model.segment.value,
        generation.name if generation else "-",
        drivers,
        *((_mark(matrix, model, target),) if is_marked else ()),
    )


def _mark(matrix: Matrix, model: GpuModel, target: ShownTarget | None) -> str:
    generation = matrix.drivers.generation_of(model.capability)
    return generation_mark(generation, target) if generation else "?"
