"""Reads accelerate's configuration (``accelerate config`` writes it as YAML)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import DocumentError
from envguard.memory.fsdp_config import read_fsdp, sharding_of
from envguard.memory.job import Place, Precision, Strategy
from envguard.memory.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

_STAGES = {1: Strategy.ZERO1, 2: Strategy.ZERO2, 3: Strategy.ZERO3}
_PRECISIONS = {"bf16": Precision.BF16, "fp16": Precision.FP16, "no": Precision.FP32}
_MOST = 10**6


def read_accelerate(document: Mapping[str, object], where: str) -> Settings:
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
                f"{where}: distributed_type: {kind!r} is none of FSDP, DEEPSPEED, MULTI_GPU, NO"
            )
    _read_common(found, document, where)
    return found


def deepspeed_file(document: Mapping[str, object], where: str) -> str | None:
    """The DeepSpeed file that an accelerate configuration names, or None."""
    if _kind(document) != "DEEPSPEED":
        return None
    path = _section(document, "deepspeed_config", where).get("deepspeed_config_file")
    return path if isinstance(path, str) and path else None


def _kind(document: Mapping[str, object]) -> str:
    """The kind of distribution; YAML reads an unquoted NO as false."""
    value = document.get("distributed_type", "NO")
    return "NO" if value is False else str(value).upper()


def _section(document: Mapping[str, object], name: str, where: str) -> Mapping[str, object]:
    value = document.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DocumentError(f"{where}: {name}: expected a mapping, found {value!r:.40}")
    return value


def _read_common(found: Settings, document: Mapping[str, object], where: str) -> None:
    word = document.get("mixed_precision")
    if word is not None:
        # YAML reads an unquoted no as false
        precision = _PRECISIONS.get("no" if word is False else str(word).lower())
        if precision is None:
            raise DocumentError(f"{where}: mixed_precision: {word!r} is none of bf16, fp16, no")
        found.state("precision", precision, f"{where}: mixed_precision")
    for name, setting in (("num_processes", "gpus"), ("num_machines", "nodes")):
        value = document.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
            raise DocumentError(f"{where}: {name}: {value!r} is not a whole number from 1")
        found.state(setting, value, f"{where}: {name}")


def _read_deepspeed(found: Settings, section: Mapping[str, object], where: str) -> None:
    if section.get("deepspeed_config_file"):
        return  # accelerate refuses the other keys beside a file
    place = f"{where}: deepspeed_config"
    stage = section.get("zero_stage", 2)
    if isinstance(stage, bool) or not isinstance(stage, int) or stage not in {0, *_STAGES}:
        raise DocumentError(f"{place}.zero_stage: {stage!r} is none of 0, 1, 2, 3")
    found.state("strategy", _STAGES.get(stage, Strategy.DDP), f"{place}.zero_stage")
    for name, setting in (
        ("offload_optimizer_device", "optimizer_on"),
        ("offload_param_device", "params_on"),
    ):
        device = section.get(name)
        if device is None or str(device).lower() == "none":
            found.state(setting, Place.GPU, place)
        elif device in {"cpu", "nvme"}:
            found.state(setting, Place(device), f"{place}.{name}")
        else:
            raise DocumentError(f"{place}.{name}: {device!r} is none of none, cpu, nvme")
    for name, setting in (
        ("zero3_save_16bit_model", "gathers_on_save"),
        ("zero3_init_flag", "zero_init"),
    ):
        value = section.get(name)
        if stage == 3 and isinstance(value, bool):
            found.state(setting, value, f"{place}.{name}")
