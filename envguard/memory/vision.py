"""Counts the image encoder and projector of vision-language models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.memory.shape import VisionTower

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from envguard.memory.config_fields import ConfigFields

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
