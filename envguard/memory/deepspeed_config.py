"""Reads a DeepSpeed configuration as DeepSpeed does; ``"auto"`` is left to transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import DocumentError
from envguard.memory.job import Place, Precision, Recompute, Strategy
from envguard.memory.parsing import parse_optimizer
from envguard.memory.settings import Settings
from envguard.memory.stated_values import (
    stated_choice,
    stated_flag,
    stated_number,
    stated_section,
    stated_text,
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
_DEVICES: Mapping[str | int, Place] = {
    "none": Place.GPU,
    "cpu": Place.CPU,
    "nvme": Place.NVME,
}
_MOST = 10**15
_MOST_SAMPLES = 10**6
# Field of zero_optimization -> name of the setting.
_BUCKETS = {
    "reduce_bucket_size": "reduce_bucket",
    "allgather_bucket_size": "allgather_bucket",
    "stage3_prefetch_bucket_size": "prefetch_bucket",
    "stage3_max_live_parameters": "max_live",
    "stage3_param_persistence_threshold": "persistence",
    "sub_group_size": "sub_group",
}
_FLAGS = {
    "overlap_comm": "overlap_comm",
    "stage3_gather_16bit_weights_on_model_save": "gathers_on_save",
    "stage3_gather_fp16_weights_on_model_save": "gathers_on_save",
}


def read_deepspeed(document: Object, where: str) -> Settings:
    """Settings of a DeepSpeed configuration.

    Args:
        document: The decoded JSON.
        where: Name of the file, for messages.

    Raises:
        DocumentError: A field has the wrong form or an impossible value; the message names it.
    """
    found = Settings()
    zero = stated_section(document, "zero_optimization", where) or {}
    place = f"{where}: zero_optimization"
    stage = stated_choice(zero.get("stage", 0), f"{place}.stage", _STAGES)
    found.state("strategy", stage, f"{place}.stage")
    for name, setting in _BUCKETS.items():
        _state_count(found, zero, name, setting, place)
    for name, setting in _FLAGS.items():
        _state_flag(found, zero, name, setting, place)
    _read_offload(found, zero, place)
    _read_precision(found, document, where)
    _read_batch(found, document, where)
    _read_optimizer(found, document, where)
    if stated_section(document, "activation_checkpointing", where) is not None:
        # it only configures deepspeed.checkpointing; whether the model calls it is not said here
        found.notes.append(
            f"{where}: activation_checkpointing does not switch checkpointing on by itself; "
            "state --recompute"
        )
    return found


def _state_count(found: Settings, zero: Object, name: str, setting: str, place: str) -> None:
    value = zero.get(name)
    if value == "auto":
        found.autos.add(setting)
    elif value is not None:
        where = f"{place}.{name}"
        count = stated_number(value, where, least=0, most=_MOST, what="a number of elements")
        found.state(setting, count, where)


def _state_flag(found: Settings, zero: Object, name: str, setting: str, place: str) -> None:
    value = zero.get(name)
    if value is not None and value != "auto":
        found.state(setting, stated_flag(value, f"{place}.{name}"), f"{place}.{name}")


def _read_offload(found: Settings, zero: Object, place: str) -> None:
    for name, setting, old in (
        ("offload_optimizer", "optimizer_on", "cpu_offload"),
        ("offload_param", "params_on", "cpu_offload_param"),
    ):
        section = stated_section(zero, name, place)
        if section is None and zero.get(old) is True:
            section = {"device": "cpu"}  # deprecated spelling, which DeepSpeed still honours
        device = (section or {}).get("device", "none")
        on = stated_choice(device, f"{place}.{name}.device", _DEVICES)
        found.state(setting, on, f"{place}.{name}.device" if section else place)
        if section is not None and on is not Place.GPU:
            _state_pinned(found, section, f"{place}.{name}")


def _state_pinned(found: Settings, section: Object, place: str) -> None:
    value = stated_flag(section.get("pin_memory", True), f"{place}.pin_memory")
    # one flag for both sections: either being page-locked rounds its buffers up
    old = found.get("pins_memory", bool)
    if old is None:
        found.state("pins_memory", value, f"{place}.pin_memory")


def _read_precision(found: Settings, document: Object, where: str) -> None:
    enabled: list[Precision] = []
    for name, precision in (("bf16", Precision.BF16), ("fp16", Precision.FP16)):
        section = stated_section(document, name, where)
        value = (section or {}).get("enabled", False)
        if value == "auto":
            found.autos.add("precision")
        elif stated_flag(value, f"{where}: {name}.enabled"):
            enabled.append(precision)
    if len(enabled) > 1:
        raise DocumentError(f"{where}: bf16.enabled and fp16.enabled are both true")
    if enabled:
        found.state("precision", enabled[0], f"{where}: {enabled[0].value}.enabled")
    elif "precision" not in found.autos:
        found.state("precision", Precision.FP32, f"{where}: bf16 and fp16, not enabled,")


def _read_batch(found: Settings, document: Object, where: str) -> None:
    for name, setting in (
        ("train_micro_batch_size_per_gpu", "micro_batch"),
        ("gradient_accumulation_steps", "accumulate"),
    ):
        value = document.get(name)
        if value == "auto":
            found.autos.add(setting)
        elif value is not None:
            place = f"{where}: {name}"
            found.state(setting, stated_number(value, place, least=1, most=_MOST_SAMPLES), place)


def _read_optimizer(found: Settings, document: Object, where: str) -> None:
    section = stated_section(document, "optimizer", where)
    name = (section or {}).get("type")
    if name is not None:
        place = f"{where}: optimizer.type"
        found.state("optimizer", parse_optimizer(place, stated_text(name, place)), where)


def recompute_of(is_on: bool) -> Recompute:
    """Checkpointing as a switch."""
    return Recompute.FULL if is_on else Recompute.NONE
