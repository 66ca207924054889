"""Public models: found by the name on the hub, or by their size where only that is known."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.facts.sentences import say
from envguard.memory.model_config import count_model

if TYPE_CHECKING:
    from envguard.matrix.memory import MemoryTable, PublicModel
    from envguard.memory.models import ModelShape


# What names of the hub add to the name of a model without changing its shape.
_TAIL = re.compile(
    r"[-_.](?:instruct|chat|base|it|pt|hf|bf16|fp16|fp8|awq|gptq|gguf|mlx|bnb|unsloth|dynamic|"
    r"int[48]|[48]bit|[48]bits|nf4|w4a16|thinking|2507)\Z"
)
_QUANTIZED = re.compile(r"awq|gptq|bnb|[48]bit|int[48]|nf4|w4a16|fp8")


def find_public(name: str, table: MemoryTable) -> ModelShape | None:
    """The shape of a model by its name on the hub; ``owner/`` and usual endings may differ.

    Args:
        name: ``Qwen/Qwen2.5-7B-Instruct``, ``unsloth/Qwen2.5-7B-Instruct-bnb-4bit``, ``gpt2``.
        table: Holds the public models.

    Returns:
        None where no row has this name.
    """
    rows = {_short(known): row for row in reversed(table.models) for known in row.hub}
    row = rows.get(name.lower().rpartition("/")[2]) or rows.get(_bare(name))
    if row is None:
        bare = {_bare(known): row for row in reversed(table.models) for known in row.hub}
        row = bare.get(_bare(name))
    if row is None:
        return None
    shape = replace(shape_of(row), name=row.name)
    notes = shape.notes
    if _QUANTIZED.search(name.lower()):
        notes = (*notes, "the name speaks of quantised weights: state --quantized or --qlora")
    return replace(shape, notes=notes)


def near_names(name: str, table: MemoryTable) -> tuple[str, ...]:
    """Up to three names of the hub that begin like this one."""
    start = re.split(r"[-_.0-9]", _short(name))[0]
    found = [known for row in table.models for known in row.hub if _short(known).startswith(start)]
    return tuple(found[:3]) if start else ()


def _short(name: str) -> str:
    return name.lower().rpartition("/")[2]


def _bare(name: str) -> str:
    """The name without its owner and the endings that say nothing of the shape."""
    short = _short(name)
    while (cut := _TAIL.sub("", short)) != short:
        short = cut
    return short


def shape_of(row: PublicModel) -> ModelShape:
    """The shape of one row."""
    return count_model(row.config, row.name)


# Sizes as people state them, "2.85B", are rounded by less than this.
_SAME_SIZE = 0.005
# Models of about one size, of which one may be meant.
_NEAR_SIZE = 0.03


def guess_shape(params: int, table: MemoryTable, *, layers: int | None = None) -> ModelShape:
    """The shape of the public model nearest in size, its depth scaled to the parameters.

    Args:
        params: Number of parameters.
        table: Holds the public models.
        layers: Number of layers where it is known.
    """
    near, others = _nearest(params, table)
    depth = layers or max(1, round(near.layers * params / near.params))
    ratio = depth / near.layers
    shape = replace(
        near,
        name=f"widths as in {near.name}",
        params=params,
        layers=depth,
        largest_module=min(near.largest_module, params),
        layer_params=min(near.layer_params, params),
        kept_params=min(near.kept_params, params),
        largest_matrix=min(near.largest_matrix, params),
        outside=min(near.outside, params),
        lora_all=round(near.lora_all * ratio),
        lora_qv=round(near.lora_qv * ratio),
        is_guess=True,
        fields=(),
        others=others,
    )
    return replace(shape, notes=(*_size_notes(shape, near.name), *near.notes))


def _size_notes(shape: ModelShape, name: str) -> tuple[str, ...]:
    note = say(
        "only the size is known: {layer_count} layers of width {width} and a vocabulary of "
        "{vocabulary} as in {model} are assumed for activations and buffers",
        layer_count=shape.layers,
        width=shape.hidden,
        vocabulary=shape.vocab,
        model=name,
    )
    if not shape.others:
        return (note,)
    layers = sorted({shape.layers, *(other.layers for other in shape.others)})
    vocabularies = sorted({shape.vocab, *(other.vocab for other in shape.others)})
    span = say(
        "models of about this size: {models}; they have {fewest} to {most} layers and "
        "vocabularies of {smallest} to {largest}, which the range covers: --model says which",
        models=", ".join(other.name for other in shape.others[:6]),
        fewest=layers[0],
        most=layers[-1],
        smallest=vocabularies[0],
        largest=vocabularies[-1],
    )
    return note, span


def _nearest(params: int, table: MemoryTable) -> tuple[ModelShape, tuple[ModelShape, ...]]:
    """The model nearest in size, and others within three per cent.

    One that is no decoder counts only where the size is its own.
    """

    def distance(shape: ModelShape) -> float:
        return abs(math.log(shape.params / params))

    shapes = [replace(shape_of(row), name=row.name) for row in table.models]
    usual = [s for s in shapes if s.is_decoder or distance(s) < _SAME_SIZE]
    near = min(usual, key=distance)
    others = tuple(s for s in usual if s is not near and s.is_decoder and distance(s) < _NEAR_SIZE)
    return near, others
