"""Counts models with encoders: T5, BART, BERT, Whisper and their kin, image towers, diffusion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.memory.models import ModelShape, VisionTower

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from envguard.memory.config_fields import ConfigFields


T5_TYPES = frozenset({"t5", "mt5", "umt5", "longt5"})
BART_TYPES = frozenset({"bart", "mbart", "m2m_100", "pegasus", "blenderbot", "marian"})
BERT_TYPES = frozenset(
    {"bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert", "deberta-v2"}
)
# Transformers and networks that denoise images: their size is what is known of them.
DIFFUSION_TYPES = frozenset({"flux", "mmdit", "unet"})
OTHER_TYPES = T5_TYPES | BART_TYPES | BERT_TYPES | DIFFUSION_TYPES | {"whisper"}
# Families whose table of positions has no two rows to spare; m2m_100 computes its positions.
_EXACT_POSITIONS = frozenset({"blenderbot", "pegasus", "marian"})
# Families without a norm after the embeddings, and with one after each stack.
_NO_EMBEDDING_NORM = frozenset({"m2m_100", "pegasus", "blenderbot", "marian"})
_FINAL_NORM = frozenset({"mbart", "m2m_100", "pegasus", "blenderbot"})


def count_other(fields: ConfigFields, model_type: str) -> ModelShape:
    """Count a model of ``OTHER_TYPES``: one that is not a decoder only.

    Raises:
        DocumentError: A field that the count needs is missing or absurd.
    """
    if model_type in T5_TYPES:
        return _count_t5(fields, model_type)
    if model_type in BERT_TYPES:
        return _count_bert(fields, model_type)
    if model_type in DIFFUSION_TYPES:
        return _count_diffusion(fields, model_type)
    return _count_whisper(fields) if model_type == "whisper" else _count_bart(fields, model_type)


def _count_bert(fields: ConfigFields, model_type: str) -> ModelShape:
    """An encoder with its pooler; what is put on top of it is a few thousand parameters."""
    width, layers = fields.count("hidden"), fields.count("layers")
    ffn, vocab, heads = fields.count("ffn", 4 * width), fields.count("vocab"), fields.count("heads")
    has_pooler = model_type not in {"deberta-v2", "electra", "distilbert"}
    outside = (vocab + fields.count_or_zero("type_vocab_size")) * width + 2 * width
    if model_type == "deberta-v2":  # relative positions, each with a norm
        outside += 2 * fields.count("position_buckets", 256) * width + 2 * width
    else:
        outside += fields.count("positions", 512) * width
    outside += (width * width + width) if has_pooler else 0
    return ModelShape(
        name=model_type,
        params=layers * _vit_layer(width, ffn) + outside,
        largest_module=max(vocab * width, width * ffn),
        layer_params=_vit_layer(width, ffn),
        hidden=width,
        ffn=ffn,
        layers=layers,
        heads=heads,
        kv_heads=heads,
        vocab=vocab,
        kept_params=outside,
        largest_matrix=width * ffn,
        outside=outside,
        lora_all=layers * (8 * width + 2 * (width + ffn)),
        lora_qv=layers * 4 * width,
        is_gated=False,
        has_logits=False,
        notes=("an encoder is taken to give a score or a class, not logits for every token",),
    )


def _count_whisper(fields: ConfigFields) -> ModelShape:
    """Two convolutions and an encoder over 1500 frames, and a decoder whose head is tied."""
    width, vocab = fields.count("d_model"), fields.count("vocab")
    encoder, decoder = fields.count("encoder_layers"), fields.count("decoder_layers")
    ffn, heads = fields.count("decoder_ffn_dim"), fields.count("encoder_attention_heads")
    frames, bins = fields.count("max_source_positions", 1500), fields.count("num_mel_bins", 80)
    attention = 4 * width * width + 3 * width  # keys have no bias
    per_encoder = attention + _mlp(width, fields.count("encoder_ffn_dim")) + 4 * width
    per_decoder = 2 * attention + _mlp(width, ffn) + 6 * width
    ears = encoder * per_encoder + frames * width + 2 * width
    ears += 3 * bins * width + 3 * width * width + 2 * width
    outside = vocab * width + fields.count("max_target_positions", 448) * width + 2 * width
    return ModelShape(
        name="whisper",
        params=ears + decoder * per_decoder + outside,
        largest_module=vocab * width,
        layer_params=per_decoder,
        hidden=width,
        ffn=ffn,
        layers=decoder,
        heads=heads,
        kv_heads=heads,
        vocab=vocab,
        kept_params=outside,
        largest_matrix=width * ffn,
        outside=outside,
        lora_all=(encoder + 2 * decoder) * 8 * width + 2 * (encoder + decoder) * (width + ffn),
        lora_qv=(encoder + 2 * decoder) * 4 * width,
        is_gated=False,
        vision=VisionTower(ears, width, encoder, frames),
        notes=("the encoder hears 1500 frames; the length of samples is that of the text",),
    )


def _count_diffusion(fields: ConfigFields, model_type: str) -> ModelShape:
    """A model that denoises images; its row states the parameters."""
    width, ffn = fields.count("hidden"), fields.count("ffn")
    layers = fields.count("layers") + fields.count_or_zero("num_single_layers")
    heads, params = fields.count("heads"), fields.count("params")
    convolves = model_type == "unet"
    inner = layers * (4 * width * width + 2 * width * ffn)
    return ModelShape(
        name=model_type,
        params=params,
        largest_module=width * ffn,
        layer_params=params // layers,
        hidden=width,
        ffn=ffn,
        layers=layers,
        heads=heads,
        kv_heads=heads,
        vocab=1,
        kept_params=max(0, params - inner),
        largest_matrix=width * ffn,
        outside=0,
        lora_all=layers * (8 * width + 2 * (width + ffn)),
        lora_qv=layers * 4 * width,
        is_gated=False,
        has_logits=False,
        notes=(
            "the length of samples is that of the image's and the text's tokens together: 4608 at "
            "1024 by 1024; text encoders and the autoencoder are models beside (--beside)",
        ),
        unmodelled=("activations of a convolutional network",) if convolves else (),
    )


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
        largest_matrix=width * max(ffn, inner),
        outside=vocab * width + head + tables,
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
        largest_matrix=width * max(ffn_in, ffn_out, width),
        outside=outside,
        lora_all=projections * 2 * width
        + 2 * encoder * (width + ffn_in)
        + 2 * decoder * (width + ffn_out),
        lora_qv=projections // 2 * 2 * width,
        is_gated=False,
    )


def _mlp(width: int, ffn: int) -> int:
    return 2 * width * ffn + ffn + width


# Images may have any size in these families: patches of one picture of about a megapixel.
_ANY_SIZE_TOKENS = 4096


def count_vision(fields: ConfigFields, model_type: str, text_hidden: int) -> VisionTower | None:
    """Count the image encoder of a model.

    Args:
        fields: The whole configuration.
        model_type: Its family.
        text_hidden: Width of the language model that the projector leads to.

    Returns:
        None where the family is not known here.

    Raises:
        DocumentError: A field that the count needs is missing or absurd.
    """
    count = _TOWERS.get(model_type)
    vision = fields.inner("vision_config")
    if count is None or vision is None:
        return None
    return count(fields, vision, text_hidden)


def estimate_vision(vision: ConfigFields) -> VisionTower | None:
    """An image encoder of an unknown family, counted like a plain vision transformer."""
    if not (vision.has("hidden") and vision.has("layers")):
        return None
    hidden = vision.count("hidden")
    ffn = vision.count("ffn", 4 * hidden)
    params = vision.count("layers") * _vit_layer(hidden, ffn) + _patches(vision, hidden)
    return VisionTower(params, hidden, vision.count("layers"), _tokens(vision))


def _vit_layer(hidden: int, ffn: int) -> int:
    """A layer with biases everywhere and two norms."""
    return 4 * (hidden * hidden + hidden) + 2 * hidden * ffn + ffn + hidden + 4 * hidden


def _patches(vision: ConfigFields, hidden: int) -> int:
    side = vision.count("patch_size", 14)
    return vision.count("num_channels", 3) * side * side * hidden


def _tokens(vision: ConfigFields) -> int:
    side = vision.count("image_size", 0)
    return (side // vision.count("patch_size", 14)) ** 2 if side else _ANY_SIZE_TOKENS


def _clip(vision: ConfigFields) -> VisionTower:
    """CLIP: a class token, learned positions, norms before and after the layers."""
    hidden, layers = vision.count("hidden", 1024), vision.count("layers", 24)
    tokens = (vision.count("image_size", 336) // vision.count("patch_size", 14)) ** 2
    body = layers * _vit_layer(hidden, vision.count("ffn", 4096))
    params = body + _patches(vision, hidden) + hidden + (tokens + 1) * hidden + 4 * hidden
    return VisionTower(params, hidden, layers, tokens)


def _siglip(vision: ConfigFields) -> VisionTower:
    """SigLIP: no class token, a biased patch embedding, one norm after the layers."""
    hidden, layers = vision.count("hidden", 1152), vision.count("layers", 27)
    side = vision.count("image_size", 224) // vision.count("patch_size", 14)
    body = layers * _vit_layer(hidden, vision.count("ffn", 4304))
    params = body + _patches(vision, hidden) + hidden + side * side * hidden + 2 * hidden
    if vision.flag("vision_use_head", default=True):  # attention pooling over the patches
        params += _vit_layer(hidden, vision.count("ffn", 4304)) - hidden
    return VisionTower(params, hidden, layers, side * side)


def _with_projector(tower: VisionTower, params: int) -> VisionTower:
    return VisionTower(tower.params + params, tower.hidden, tower.layers, tower.tokens)


def _llava(fields: ConfigFields, vision: ConfigFields, text_hidden: int) -> VisionTower:
    tower = _siglip(vision) if "siglip" in vision.text("model_type") else _clip(vision)
    projector = tower.hidden * text_hidden + text_hidden + text_hidden * text_hidden + text_hidden
    return _with_projector(tower, projector)


def _paligemma(fields: ConfigFields, vision: ConfigFields, text_hidden: int) -> VisionTower:
    tower = _siglip(vision)
    return _with_projector(tower, tower.hidden * text_hidden + text_hidden)


def _gemma3(fields: ConfigFields, vision: ConfigFields, text_hidden: int) -> VisionTower:
    tower = _siglip(vision)
    return _with_projector(tower, tower.hidden * text_hidden + tower.hidden)


def _qwen2_vl(fields: ConfigFields, vision: ConfigFields, text_hidden: int) -> VisionTower:
    width, depth = vision.count("embed_dim", 1280), vision.count("depth", 32)
    ffn = width * vision.count("mlp_ratio", 4)
    out = vision.count("hidden_size", text_hidden)
    merged = width * vision.count("spatial_merge_size", 2) ** 2
    params = depth * _vit_layer(width, ffn) + _video_patches(vision, width)
    params += 2 * width + merged * merged + merged + merged * out + out
    return VisionTower(params, width, depth, _ANY_SIZE_TOKENS)


def _qwen2_5_vl(fields: ConfigFields, vision: ConfigFields, text_hidden: int) -> VisionTower:
    width, depth = vision.count("hidden_size", 1280), vision.count("depth", 32)
    ffn = vision.count("intermediate_size", 3420)
    out = vision.count("out_hidden_size", text_hidden)
    merged = width * vision.count("spatial_merge_size", 2) ** 2
    layer = 4 * (width * width + width) + 3 * width * ffn + 2 * ffn + width + 2 * width
    params = depth * layer + _video_patches(vision, width)
    params += width + merged * merged + merged + merged * out + out
    return VisionTower(params, width, depth, _ANY_SIZE_TOKENS)


def _qwen3_vl(fields: ConfigFields, vision: ConfigFields, text_hidden: int) -> VisionTower:
    width, depth = vision.count("hidden_size", 1152), vision.count("depth", 27)
    ffn = vision.count("intermediate_size", 4304)
    out = vision.count("out_hidden_size", text_hidden)
    merged = width * vision.count("spatial_merge_size", 2) ** 2
    positions = vision.count("num_position_embeddings", 2304) * width
    params = depth * _vit_layer(width, ffn) + _video_patches(vision, width) + width + positions
    merger = merged * merged + merged + merged * out + out
    deep = len(vision.numbers("deepstack_visual_indexes")) or 3
    params += merger + 2 * width + deep * (merger + 2 * merged)
    return VisionTower(params, width, depth, _ANY_SIZE_TOKENS)


def _video_patches(vision: ConfigFields, width: int) -> int:
    side = vision.count("patch_size", 14)
    frames = vision.count("temporal_patch_size", 2)
    return vision.count("in_channels", 3) * frames * side * side * width


_TOWERS: Mapping[str, Callable[[ConfigFields, ConfigFields, int], VisionTower]] = {
    "llava": _llava,
    "paligemma": _paligemma,
    "gemma3": _gemma3,
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
    "qwen3_vl": _qwen3_vl,
    "qwen3_vl_moe": _qwen3_vl,
}
