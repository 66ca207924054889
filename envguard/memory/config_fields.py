"""Reads the fields of a model's config.json, remembers which were used, and names the bad ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import DocumentError

if TYPE_CHECKING:
    from collections.abc import Mapping


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
_MOST = {"params": 10**14}


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
        most = _MOST.get(name, _LIMIT)
        if not 0 < value <= most:
            raise self.error(name, f"{value} is not between 1 and {most}")
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
