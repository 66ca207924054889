"""Reads FSDP settings as accelerate and transformers spell them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import DocumentError
from envguard.memory.job import Place, Recompute, Strategy
from envguard.memory.stated_values import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envguard.memory.settings import Settings

_SHARDING: Mapping[str, Strategy] = {
    "full_shard": Strategy.FSDP_FULL,
    "shard_grad_op": Strategy.FSDP_GRAD_OP,
    "no_shard": Strategy.DDP,
    "hybrid_shard": Strategy.FSDP_HYBRID,
    "hybrid_shard_zero2": Strategy.FSDP_HYBRID,
    "true": Strategy.FSDP_FULL,
    "false": Strategy.FSDP_GRAD_OP,
    "1": Strategy.FSDP_FULL,
    "2": Strategy.FSDP_GRAD_OP,
    "3": Strategy.DDP,
    "4": Strategy.FSDP_HYBRID,
    "5": Strategy.FSDP_HYBRID,
}
_STATE_DICTS = {"full_state_dict": False, "sharded_state_dict": True, "local_state_dict": True}


def read_fsdp(found: Settings, section: Mapping[str, object], where: str) -> None:
    """State what an ``fsdp_config`` says; keys may carry accelerate's ``fsdp_`` prefix.

    Raises:
        DocumentError: A value that these frameworks would not take.
    """
    fields = {key.removeprefix("fsdp_"): (key, value) for key, value in section.items()}
    _read_sharding(found, fields, where)
    _read_offload(found, fields, where)
    _read_state_dict(found, fields, where)
    key, value = fields.get("cpu_ram_efficient_loading", ("cpu_ram_efficient_loading", None))
    is_stated = value is not None
    is_on = is_stated and _flag(value, f"{where}.{key}")
    found.state("efficient_load", is_on, f"{where}.{key}", is_default=not is_stated)
    if "activation_checkpointing" in fields:
        key, value = fields["activation_checkpointing"]
        is_on = _flag(value, f"{where}.{key}")
        found.state("recompute", Recompute.FULL if is_on else Recompute.NONE, f"{where}.{key}")


def sharding_of(word: str, where: str) -> Strategy:
    """The strategy behind a sharding word or number.

    Raises:
        DocumentError: It is none.
    """
    found = _SHARDING.get(word.strip().lower())
    if found is None:
        raise DocumentError(f"{where}: {shown(word)} is no FSDP sharding strategy")
    return found


def _read_sharding(found: Settings, fields: Mapping[str, tuple[str, object]], where: str) -> None:
    for name in ("sharding_strategy", "reshard_after_forward"):
        if name in fields and fields[name][1] is not None:
            key, value = fields[name]
            found.state("strategy", sharding_of(str(value), f"{where}.{key}"), f"{where}.{key}")


def _read_offload(found: Settings, fields: Mapping[str, tuple[str, object]], where: str) -> None:
    for name in ("offload_params", "cpu_offload"):
        if name in fields and fields[name][1] is not None:
            key, value = fields[name]
            place = Place.CPU if _flag(value, f"{where}.{key}") else Place.GPU
            found.state("params_on", place, f"{where}.{key}")
            found.state("optimizer_on", place, f"{where}.{key}")


def _read_state_dict(found: Settings, fields: Mapping[str, tuple[str, object]], where: str) -> None:
    if "state_dict_type" not in fields:
        return
    key, value = fields["state_dict_type"]
    kind = str(value).lower()
    if kind not in _STATE_DICTS:
        raise DocumentError(f"{where}.{key}: {shown(value)} is no FSDP state dict type")
    found.state("fsdp_sharded", _STATE_DICTS[kind], f"{where}.{key}")


def _flag(value: object, where: str) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).lower()
    if word not in {"true", "false"}:
        raise DocumentError(f"{where}: expected true or false, found {shown(value)}")
    return word == "true"
