"""Counts encoder-decoder models: T5 and its kin, BART and its kin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.memory.shape import ModelShape

if TYPE_CHECKING:
    from envguard.memory.config_fields import ConfigFields

T5_TYPES = frozenset({"t5", "mt5", "umt5", "longt5"})
BART_TYPES = frozenset({"bart", "mbart", "m2m_100", "pegasus", "blenderbot", "marian"})
ENCODER_DECODER_TYPES = T5_TYPES | BART_TYPES
# Families whose table of positions has no two rows to spare; m2m_100 computes its positions.
_EXACT_POSITIONS = frozenset({"blenderbot", "pegasus", "marian"})
# Families without a norm after the embeddings, and with one after each stack.
_NO_EMBEDDING_NORM = frozenset({"m2m_100", "pegasus", "blenderbot", "marian"})
_FINAL_NORM = frozenset({"mbart", "m2m_100", "pegasus", "blenderbot"})


def count_encoder_decoder(fields: ConfigFields, model_type: str) -> ModelShape:
    """Count an encoder-decoder model.

    Raises:
        DocumentError: A field that the count needs is missing or absurd.
    """
    if model_type in T5_TYPES:
        return _count_t5(fields, model_type)
    return _count_bart(fields, model_type)


def _count_t5(fields: ConfigFields, model_type: str) -> ModelShape:
    width, ffn, heads = fields.count("d_model"), fields.count("d_ff"), fields.count("num_heads")
    inner = heads * fields.count("d_kv", max(1, width // heads))
    encoder = fields.count("num_layers")
    decoder = fields.count("num_decoder_layers", encoder)
    vocab = fields.count("vocab")
    gated = "gated" in fields.text("feed_forward_proj")
    attention = 4 * width * inner
    mlp = (3 if gated else 2) * width * ffn
    per_encoder, per_decoder = attention + mlp + 2 * width, 2 * attention + mlp + 3 * width
    buckets = fields.count("relative_attention_num_buckets", 32) * heads
    tables = buckets * ((encoder + decoder) if model_type == "umt5" else 2)
    head = 0 if fields.flag("tie_word_embeddings", default=True) else vocab * width
    layers = encoder * per_encoder + decoder * per_decoder
    matrices = 4 * (encoder + 2 * decoder)
    return ModelShape(
        name=model_type,
        params=layers + tables + vocab * width + head + 2 * width,
        largest_module=max(vocab * width, width * ffn),
        layer_params=per_decoder,
        hidden=width,
        ffn=ffn,
        layers=encoder + decoder,
        heads=heads,
        kv_heads=heads,
        vocab=vocab,
        kept_params=vocab * width + head + tables,
        lora_all=matrices * (width + inner)
        + (3 if gated else 2) * (encoder + decoder) * (width + ffn),
        lora_qv=2 * (encoder + 2 * decoder) * (width + inner),
        is_gated=gated,
    )


def _count_bart(fields: ConfigFields, model_type: str) -> ModelShape:
    width, vocab = fields.count("d_model"), fields.count("vocab")
    encoder, decoder = fields.count("encoder_layers"), fields.count("decoder_layers")
    ffn_in, ffn_out = fields.count("encoder_ffn_dim"), fields.count("decoder_ffn_dim")
    attention = 4 * (width * width + width)
    per_encoder = attention + _mlp(width, ffn_in) + 4 * width
    per_decoder = 2 * attention + _mlp(width, ffn_out) + 6 * width
    outside = vocab * width
    if model_type != "m2m_100":
        offset = 0 if model_type in _EXACT_POSITIONS else 2
        outside += 2 * (fields.count("positions") + offset) * width
    if model_type not in _NO_EMBEDDING_NORM:
        outside += 4 * width
    if model_type in _FINAL_NORM:
        outside += 4 * width
    if not fields.flag("tie_word_embeddings", default=True):
        outside += vocab * width
    projections = 4 * encoder + 8 * decoder
    return ModelShape(
        name=model_type,
        params=encoder * per_encoder + decoder * per_decoder + outside,
        largest_module=max(vocab * width, width * max(ffn_in, ffn_out)),
        layer_params=per_decoder,
        hidden=width,
        ffn=max(ffn_in, ffn_out),
        layers=encoder + decoder,
        heads=fields.count("encoder_attention_heads"),
        kv_heads=fields.count("encoder_attention_heads"),
        vocab=vocab,
        kept_params=outside,
        lora_all=projections * 2 * width
        + 2 * encoder * (width + ffn_in)
        + 2 * decoder * (width + ffn_out),
        lora_qv=projections // 2 * 2 * width,
        is_gated=False,
    )


def _mlp(width: int, ffn: int) -> int:
    return 2 * width * ffn + ffn + width
