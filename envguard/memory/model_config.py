"""Reads --model: a Hugging Face config.json, or the index of a safetensors checkpoint."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.errors import DocumentError
from envguard.facts.facts import decode_json
from envguard.files import is_folder, read_utf8
from envguard.memory.encoders import (
    ENCODER_DECODER_TYPES,
    count_encoder_decoder,
    count_vision,
    estimate_vision,
)
from envguard.memory.models import UNKNOWN_SPREAD, Counted, ModelShape, count_decoder, guess_shape
from envguard.memory.settings import stated_number
from envguard.values import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.matrix.memory import MemoryTable


# The same thing under the names that model families give it.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model", "dim"),
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"),
    "ffn": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "d_ff"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "positions": ("max_position_embeddings", "n_positions"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "expert_ffn": ("moe_intermediate_size", "expert_ffn_hidden_size"),
    "chosen": ("num_experts_per_tok", "num_experts_per_token", "moe_topk"),
}
_LIMIT = 100_000_000


class ConfigFields:
    """A mapping of a configuration.

    Args:
        data: The decoded object.
        where: Name of the file and path of the object, the start of every message.
        used: Names that were read; shared by the objects inside one file.
    """

    __slots__ = ("_prefix", "data", "used", "where")

    def __init__(
        self, data: Mapping[str, object], where: str, used: list[str] | None = None
    ) -> None:
        self.data = data
        self.where = where
        self.used = used if used is not None else []
        self._prefix = where.partition(": ")[2]

    def inner(self, name: str) -> ConfigFields | None:
        """An object inside this one, or None where there is none."""
        value = self.data.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(name, f"expected an object, found {value!r:.40}")
        separator = "." if ": " in self.where else ": "
        return ConfigFields(value, f"{self.where}{separator}{name}", self.used)

    def error(self, name: str, problem: str) -> DocumentError:
        """The error about one field: ``config.json: text_config.hidden_size: ...``."""
        separator = "." if ": " in self.where else ": "
        return DocumentError(f"{self.where}{separator}{name}: {problem}")

    def count(self, key: str, default: int | None = None) -> int:
        """A positive whole number under one of its names.

        Args:
            key: A key of ``ALIASES``, or the field's own name.
            default: What a missing field means; None refuses it.

        Raises:
            DocumentError: Missing, not a whole number, not positive, or absurdly large.
        """
        found = self._find(key)
        if found is None:
            if default is None:
                names = ALIASES.get(key, (key,))
                raise self.error(names[0], f"is missing (none of {', '.join(names)})")
            return default
        name, value = found
        if isinstance(value, list) and value and all(type(item) is int for item in value):
            value = max(value)  # height and width of a patch or an image
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(name, f"expected a whole number, found {value!r:.40}")
        if not 0 < value <= _LIMIT:
            raise self.error(name, f"{value} is not between 1 and {_LIMIT}")
        return value

    def count_or_zero(self, key: str) -> int:
        """As :meth:`count`, where missing, null and 0 all mean none."""
        found = self._find(key)
        return 0 if found is None or found[1] == 0 else self.count(key)

    def flag(self, name: str, *, default: bool) -> bool:
        """A boolean field."""
        value = self.data.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, f"expected true or false, found {value!r:.40}")
        self._note(name)
        return value

    def text(self, name: str) -> str:
        """A text field, empty where it is missing."""
        value = self.data.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(name, f"expected a text, found {value!r:.40}")
        self._note(name)
        return value

    def numbers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers, empty where it is missing."""
        value = self.data.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise self.error(name, f"expected a list of whole numbers, found {value!r:.40}")
        self._note(name)
        return tuple(value)

    def has(self, key: str) -> bool:
        """Whether one of the names is there with a value."""
        return self._find(key) is not None

    def _find(self, key: str) -> tuple[str, object] | None:
        for name in ALIASES.get(key, (key,)):
            if self.data.get(name) is not None:
                self._note(name)
                return name, self.data[name]
        return None

    def _note(self, name: str) -> None:
        full = f"{self._prefix}.{name}" if self._prefix else name
        if full not in self.used:
            self.used.append(full)


_SIZE_LIMIT = 64 * 1024 * 1024
_MOST_PARAMS = 100 * 10**12
_LAYER = re.compile(r"\.(?:layers|h|blocks?)\.([0-9]{1,5})\.")
# Vision-language configurations whose text fields stand at the top level.
_FLAT_TEXT = {"qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2"}


def load_model(path: Path, table: MemoryTable) -> ModelShape:
    """Read a model description.

    Args:
        path: A config.json, a ``*.safetensors.index.json``, or a folder with a config.json.
        table: For the widths of a model of which only the size is known.

    Raises:
        InputError: Unreadable, too large, or without the fields that a count needs.
    """
    target = path / "config.json" if is_folder(path) else path
    document = read_json(target).document
    if "weight_map" in document:
        return _from_index(document, target, table)
    return count_model(document, str(target))


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
    if model_type in ENCODER_DECODER_TYPES:
        shape = count_encoder_decoder(fields, model_type)
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
        notes = (*notes, f"fields used of {where}: {', '.join(used)}")
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
        lora_all=counted.lora_all,
        lora_qv=counted.lora_qv,
        is_gated=counted.family.is_gated,
    )


def _add_vision(
    shape: ModelShape, fields: ConfigFields, model_type: str, *, is_known: bool
) -> ModelShape:
    notes: list[str] = []
    spread = 1.0
    if not is_known:
        spread = UNKNOWN_SPREAD
        notes.append(
            f"architecture {shape.name!r} is not known: counted as a Llama-like decoder, and the "
            "range is widened"
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
        spread=spread,
        notes=tuple(notes),
    )


def _from_index(document: Mapping[str, object], path: Path, table: MemoryTable) -> ModelShape:
    """A checkpoint's index: its total, and the names of its tensors."""
    metadata, names = document.get("metadata"), document["weight_map"]
    if not isinstance(names, dict) or not names:
        raise DocumentError(f"{path}: weight_map: expected an object of tensor names")
    if not isinstance(metadata, dict):
        raise DocumentError(f"{path}: metadata: is missing")
    params, note = _total(metadata, path)
    layers = {int(found[1]) for name in names if (found := _LAYER.search(str(name)))}
    shape = guess_shape(params, table, layers=len(layers) or None)
    used = ("metadata", "weight_map")
    return replace(shape, fields=used, notes=(*shape.notes, *note))


def _total(metadata: dict[str, object], path: Path) -> tuple[int, tuple[str, ...]]:
    counted = metadata.get("total_parameters")
    if counted is not None:
        place = f"{path}: metadata.total_parameters"
        return stated_number(counted, place, least=1, most=_MOST_PARAMS), ()
    place = f"{path}: metadata.total_size"
    most = 2 * _MOST_PARAMS
    size = stated_number(metadata.get("total_size"), place, least=2, most=most, what="a size")
    note = f"{path.name} states bytes only: its tensors are taken to be of 2 bytes an element"
    return size // 2, (note,)
