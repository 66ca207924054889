"""Reads accelerate's configuration (``accelerate config`` writes it as YAML)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import DocumentError
from envguard.memory.fsdp_config import read_fsdp, sharding_of
from envguard.memory.job import Place, Precision, Strategy
from envguard.memory.settings import Settings
from envguard.memory.stated_values import (
    shown,
    stated_choice,
    stated_number,
    stated_section,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envguard.memory.stated_values import Object

_STAGES: Mapping[str | int, Strategy] = {
    0: Strategy.DDP,
    1: Strategy.ZERO1,
    2: Strategy.ZERO2,
    3: Strategy.ZERO3,
}
_DEVICES: Mapping[str | int, Place] = {"cpu": Place.CPU, "nvme": Place.NVME, "none": Place.GPU}
_PRECISIONS = {"bf16": Precision.BF16, "fp16": Precision.FP16, "no": Precision.FP32}
_MOST = 10**6


def read_accelerate(document: Object, where: str) -> Settings:
    """Settings of an accelerate configuration; a DeepSpeed file it names is read by the caller.

    Raises:
        DocumentError: A field has the wrong form or an impossible value; the message names it.
    """
    found = Settings()
    kind = _kind(document)
    match kind:
        case "FSDP":
            section = _section(document, "fsdp_config", where)
            read_fsdp(found, section, f"{where}: fsdp_config")
            if "strategy" not in found.values:
                found.state("strategy", sharding_of("full_shard", where), f"{where}: fsdp_config")
        case "DEEPSPEED":
            _read_deepspeed(found, _section(document, "deepspeed_config", where), where)
        case "MULTI_GPU" | "NO":
            found.state("strategy", Strategy.DDP, f"{where}: distributed_type")
        case _:
            raise DocumentError(
                f"{where}: distributed_type: {shown(kind)} is none of FSDP, DEEPSPEED, "
                "MULTI_GPU, NO"
            )
    _read_common(found, document, where)
    return found


def deepspeed_file(document: Object, where: str) -> str | None:
    """The DeepSpeed file that an accelerate configuration names, or None."""
    if _kind(document) != "DEEPSPEED":
        return None
    path = _section(document, "deepspeed_config", where).get("deepspeed_config_file")
    return path if isinstance(path, str) and path else None


def _kind(document: Object) -> str:
    """The kind of distribution; YAML reads an unquoted NO as false."""
    value = document.get("distributed_type", "NO")
    return "NO" if value is False else str(value).upper()


def _section(document: Object, name: str, where: str) -> Object:
    return stated_section(document, name, where) or {}


def _read_common(found: Settings, document: Object, where: str) -> None:
    word = document.get("mixed_precision")
    if word is not None:
        # YAML reads an unquoted no as false
        precision = _PRECISIONS.get("no" if word is False else str(word).lower())
        if precision is None:
            raise DocumentError(
                f"{where}: mixed_precision: {shown(word)} is none of bf16, fp16, no"
            )
        found.state("precision", precision, f"{where}: mixed_precision")
    for name, setting in (("num_processes", "gpus"), ("num_machines", "nodes")):
        value = document.get(name)
        if value is not None:
            place = f"{where}: {name}"
            found.state(setting, stated_number(value, place, least=1, most=_MOST), place)


def _read_deepspeed(found: Settings, section: Object, where: str) -> None:
    if section.get("deepspeed_config_file"):
        return  # accelerate refuses the other keys beside a file
    place = f"{where}: deepspeed_config"
    strategy = stated_choice(section.get("zero_stage", 2), f"{place}.zero_stage", _STAGES)
    found.state("strategy", strategy, f"{place}.zero_stage")
    for name, setting in (
        ("offload_optimizer_device", "optimizer_on"),
        ("offload_param_device", "params_on"),
    ):
        device = section.get(name)
        if device is None or str(device).lower() == "none":
            found.state(setting, Place.GPU, place)
        else:
            on = stated_choice(device, f"{place}.{name}", _DEVICES)
            found.state(setting, on, f"{place}.{name}")
    for name, setting in (
        ("zero3_save_16bit_model", "gathers_on_save"),
        ("zero3_init_flag", "zero_init"),
    ):
        value = section.get(name)
        if strategy is Strategy.ZERO3 and isinstance(value, bool):
            found.state(setting, value, f"{place}.{name}")
