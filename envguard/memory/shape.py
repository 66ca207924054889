"""What a model is made of, as far as memory depends on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VisionTower:
    """The image encoder in front of a language model.

    Args:
        params: Its parameters, the projector included.
        hidden: Width of its layers.
        layers: Number of its layers.
        tokens: Patches of one image; an assumption where images may have any size.
    """

    params: int
    hidden: int
    layers: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A model's parameters and the widths that activations depend on.

    Args:
        name: For people: the architecture, or what stands in for it.
        params: All parameters, shared ones once.
        largest_module: Parameters of the largest single module, usually the embedding.
        layer_params: Parameters of the largest decoder layer.
        hidden: Width of the residual stream.
        ffn: Width of the MLP that one token passes; with experts, the chosen ones together.
        layers: Number of layers, encoder and decoder together.
        heads: Attention heads.
        kv_heads: Key and value heads.
        vocab: Size of the vocabulary.
        kept_params: Embeddings, head and norms: what quantisation leaves in 16 bits.
        lora_all: Inputs plus outputs of all linear layers, the head apart, summed over layers.
        lora_qv: Likewise of the query and value projections only.
        is_gated: The MLP multiplies two projections (SwiGLU and its kin), norms without a mean.
        vision: The image encoder; None for text models.
        is_guess: Widths are a typical model's, only the size is known.
        spread: By what factor the parameters may be off either way; 1 is counted exactly.
        fields: Fields of the configuration that were used.
        notes: Remarks for the reader.
    """

    name: str
    params: int
    largest_module: int
    layer_params: int
    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    kept_params: int
    lora_all: int
    lora_qv: int
    is_gated: bool = True
    vision: VisionTower | None = None
    is_guess: bool = False
    spread: float = 1.0
    fields: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
