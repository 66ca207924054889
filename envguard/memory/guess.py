"""A shape for a model of which only the number of parameters is known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from envguard.memory.shape import ModelShape

if TYPE_CHECKING:
    from envguard.matrix.memory_table import MemoryTable, TypicalShape

# Sizes as people state them, "2.85B", are rounded by less than this.
_SAME_SIZE = 0.005


def guess_shape(params: int, table: MemoryTable, *, layers: int | None = None) -> ModelShape:
    """The widths of the public model nearest in size, its depth scaled to the parameters.

    Args:
        params: Number of parameters.
        table: Holds the public models.
        layers: Number of layers where it is known.
    """
    near = _nearest(params, table)
    depth = layers or max(1, round(near.layers * params / near.params))
    head = near.hidden // near.heads
    narrow = near.kv_heads * head
    qv = 2 * near.hidden + near.hidden + narrow
    mlp = _matrices(near) * (near.hidden + near.ffn)
    everything = qv + near.hidden + narrow + 2 * near.hidden + mlp
    embedding = min(near.vocab * near.hidden, params)
    return ModelShape(
        name=f"widths as in {near.name}",
        params=params,
        largest_module=embedding,
        layer_params=min(_layer(near, narrow), params),
        hidden=near.hidden,
        ffn=near.ffn,
        layers=depth,
        heads=near.heads,
        kv_heads=near.kv_heads,
        vocab=near.vocab,
        kept_params=min(2 * embedding, params),
        lora_all=depth * everything,
        lora_qv=depth * qv,
        is_gated=near.is_gated,
        is_guess=True,
        notes=(
            f"only the size is known: {depth} layers of width {near.hidden} and a vocabulary of "
            f"{near.vocab} as in {near.name} are assumed for activations and buffers",
        ),
    )


def _nearest(params: int, table: MemoryTable) -> TypicalShape:
    """The model nearest in size; one with an encoder only where the size is its own."""

    def distance(row: TypicalShape) -> float:
        return abs(math.log(row.params / params))

    return min(
        (row for row in table.typical if not row.is_encoder_decoder or distance(row) < _SAME_SIZE),
        key=distance,
        default=table.typical[0],
    )


def _matrices(near: TypicalShape) -> int:
    """Matrices of an MLP."""
    return 3 if near.is_gated else 2


def _layer(near: TypicalShape, narrow: int) -> int:
    attention = 2 * near.hidden * near.hidden + 2 * near.hidden * narrow
    return attention + _matrices(near) * near.hidden * near.ffn + 2 * near.hidden
