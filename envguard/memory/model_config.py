"""Counts a model from its config.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.errors import DocumentError
from envguard.facts.facts import decode_json
from envguard.facts.sentences import say
from envguard.files import read_utf8
from envguard.memory.config_fields import ConfigFields
from envguard.memory.encoders import (
    OTHER_TYPES,
    count_other,
    count_vision,
    estimate_vision,
)
from envguard.memory.models import UNKNOWN_SPREAD, Counted, ModelShape, count_decoder
from envguard.values import dataclass

if TYPE_CHECKING:
    from pathlib import Path


_SIZE_LIMIT = 64 * 1024 * 1024
# Vision-language configurations whose text fields stand at the top level.
_FLAT_TEXT = {"qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2"}


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A decoded file that holds one object.

    Args:
        document: The object; of a key that is stated twice the last value counts.
        doubled: Keys that are stated twice in one object, at any depth, in the order found.
    """

    document: Mapping[str, object]
    doubled: tuple[str, ...] = ()


def read_json(path: Path) -> JsonObject:
    """Decode a JSON file that must hold an object.

    Raises:
        InputError: Unreadable, larger than 64 MiB, not JSON, or something else than an object.
    """
    doubled: list[str] = []

    def build(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            doubled.extend(name for name, count in counts.items() if count > 1)
        return found

    document = decode_json(read_utf8(path, _SIZE_LIMIT), str(path), build)
    if not isinstance(document, dict):
        raise DocumentError(f"{path}: expected a JSON object")
    return JsonObject(document, tuple(doubled))


def count_model(document: Mapping[str, object], where: str) -> ModelShape:
    """Count a model from its decoded config.json.

    Raises:
        DocumentError: A field that the count needs is missing or absurd; the message names it.
    """
    fields = ConfigFields(document, where)
    model_type = fields.text("model_type")
    if model_type in OTHER_TYPES:
        shape = count_other(fields, model_type)
        return replace(shape, fields=tuple(fields.used))
    text = fields.inner("text_config")
    if text is None and "vision_config" in document and model_type not in _FLAT_TEXT:
        text = fields.inner("llm_config") or fields.inner("language_config")
    text_type = (text.text("model_type") if text else "") or _FLAT_TEXT.get(model_type, model_type)
    is_tied = None  # of a model in parts, the outer object says whether the head is tied
    if text is not None and fields.has("tie_word_embeddings"):
        is_tied = fields.flag("tie_word_embeddings", default=False)
    counted = count_decoder(text or fields, text_type, is_tied=is_tied)
    shape = _shape(counted, model_type or text_type or "unnamed architecture")
    shape = _add_vision(shape, fields, model_type, is_known=counted.is_known)
    used = tuple(fields.used)
    notes = shape.notes
    if shape.spread > 1:
        notes = (
            *notes,
            say("fields used of {where}: {fields}", where=where, fields=", ".join(used)),
        )
    return replace(shape, fields=used, notes=notes)


def _shape(counted: Counted, name: str) -> ModelShape:
    return ModelShape(
        name=name,
        params=counted.params,
        largest_module=counted.largest_module,
        layer_params=counted.layer,
        hidden=counted.hidden,
        ffn=counted.ffn,
        layers=counted.layers,
        heads=counted.heads,
        kv_heads=counted.kv_heads,
        vocab=counted.vocab,
        kept_params=counted.kept,
        largest_matrix=counted.largest_matrix,
        outside=counted.outside,
        lora_all=counted.lora_all,
        lora_qv=counted.lora_qv,
        is_gated=counted.family.is_gated,
        is_decoder=True,
    )


def _add_vision(
    shape: ModelShape, fields: ConfigFields, model_type: str, *, is_known: bool
) -> ModelShape:
    notes: list[str] = []
    spread = 1.0
    if not is_known:
        spread = UNKNOWN_SPREAD
        notes.append(
            say(
                "architecture {architecture!r} is not known: counted as a Llama-like "
                "decoder, and the range is widened",
                architecture=shape.name,
            )
        )
    vision = count_vision(fields, model_type, shape.hidden)
    inner = fields.inner("vision_config")
    if vision is None and inner is not None:
        vision = estimate_vision(inner)
        spread = UNKNOWN_SPREAD
        notes.append("the image encoder is counted as a plain vision transformer")
    if vision is None:
        return replace(shape, spread=spread, notes=tuple(notes))
    return replace(
        shape,
        params=shape.params + vision.params,
        vision=vision,
        is_decoder=False,
        spread=spread,
        notes=tuple(notes),
    )
