"""Reads a DeepSpeed configuration as DeepSpeed does; ``"auto"`` is left to transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import DocumentError
from envguard.memory.job import Place, Precision, Recompute, Strategy
from envguard.memory.parsing import parse_optimizer
from envguard.memory.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

_STAGES = {0: Strategy.DDP, 1: Strategy.ZERO1, 2: Strategy.ZERO2, 3: Strategy.ZERO3}
_MOST = 10**15
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


def read_deepspeed(document: Mapping[str, object], where: str) -> Settings:
    """Settings of a DeepSpeed configuration.

    Args:
        document: The decoded JSON.
        where: Name of the file, for messages.

    Raises:
        DocumentError: A field has the wrong form or an impossible value; the message names it.
    """
    found = Settings()
    zero = _section(document, "zero_optimization", where) or {}
    place = f"{where}: zero_optimization"
    found.state("strategy", _STAGES[_stage(zero, place)], f"{place}.stage")
    for name, setting in _BUCKETS.items():
        _state_count(found, zero, name, setting, place)
    for name, setting in _FLAGS.items():
        _state_flag(found, zero, name, setting, place)
    _read_offload(found, zero, place)
    _read_precision(found, document, where)
    _read_batch(found, document, where)
    _read_optimizer(found, document, where)
    if _section(document, "activation_checkpointing", where) is not None:
        # it only configures deepspeed.checkpointing; whether the model calls it is not said here
        found.notes.append(
            f"{where}: activation_checkpointing does not switch checkpointing on by itself; "
            "state --recompute"
        )
    return found


def _section(document: Mapping[str, object], name: str, where: str) -> Mapping[str, object] | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise DocumentError(f"{where}: {name}: expected an object, found {value!r:.40}")
    return value


def _stage(zero: Mapping[str, object], place: str) -> int:
    stage = zero.get("stage", 0)
    if isinstance(stage, bool) or stage not in _STAGES or not isinstance(stage, int):
        raise DocumentError(f"{place}.stage: {stage!r} is none of 0, 1, 2, 3")
    return stage


def _state_count(
    found: Settings, zero: Mapping[str, object], name: str, setting: str, place: str
) -> None:
    value = zero.get(name)
    if value == "auto":
        found.autos.add(setting)
        return
    if value is None:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not float(value).is_integer() or not 0 <= float(value) <= _MOST:  # type: ignore[arg-type]  # proven a number
        raise DocumentError(f"{place}.{name}: {value!r} is not a number of elements")
    found.state(setting, int(float(value)), f"{place}.{name}")  # type: ignore[arg-type]  # likewise


def _state_flag(
    found: Settings, zero: Mapping[str, object], name: str, setting: str, place: str
) -> None:
    value = zero.get(name)
    if value is None or value == "auto":
        return
    if not isinstance(value, bool):
        raise DocumentError(f"{place}.{name}: expected true or false, found {value!r:.40}")
    found.state(setting, value, f"{place}.{name}")


def _read_offload(found: Settings, zero: Mapping[str, object], place: str) -> None:
    for name, setting, old in (
        ("offload_optimizer", "optimizer_on", "cpu_offload"),
        ("offload_param", "params_on", "cpu_offload_param"),
    ):
        section = _section(zero, name, place)
        if section is None and zero.get(old) is True:
            section = {"device": "cpu"}  # deprecated spelling, which DeepSpeed still honours
        device = (section or {}).get("device", "none")
        if device not in {"none", "cpu", "nvme"}:
            raise DocumentError(f"{place}.{name}.device: {device!r} is none of none, cpu, nvme")
        on = Place.GPU if device == "none" else Place(device)
        found.state(setting, on, f"{place}.{name}.device" if section else place)
        if section is not None and on is not Place.GPU:
            _state_pinned(found, section, f"{place}.{name}")


def _state_pinned(found: Settings, section: Mapping[str, object], place: str) -> None:
    value = section.get("pin_memory", True)
    if not isinstance(value, bool):
        raise DocumentError(f"{place}.pin_memory: expected true or false, found {value!r:.40}")
    # one flag for both sections: either being page-locked rounds its buffers up
    old = found.get("pins_memory", bool)
    if old is None:
        found.state("pins_memory", value, f"{place}.pin_memory")


def _read_precision(found: Settings, document: Mapping[str, object], where: str) -> None:
    enabled: list[Precision] = []
    for name, precision in (("bf16", Precision.BF16), ("fp16", Precision.FP16)):
        section = _section(document, name, where)
        value = (section or {}).get("enabled", False)
        if value == "auto":
            found.autos.add("precision")
        elif not isinstance(value, bool):
            raise DocumentError(f"{where}: {name}.enabled: expected true or false")
        elif value:
            enabled.append(precision)
    if len(enabled) > 1:
        raise DocumentError(f"{where}: bf16.enabled and fp16.enabled are both true")
    if enabled:
        found.state("precision", enabled[0], f"{where}: {enabled[0].value}.enabled")
    elif "precision" not in found.autos:
        found.state("precision", Precision.FP32, f"{where}: bf16 and fp16, not enabled,")


def _read_batch(found: Settings, document: Mapping[str, object], where: str) -> None:
    for name, setting in (
        ("train_micro_batch_size_per_gpu", "micro_batch"),
        ("gradient_accumulation_steps", "accumulate"),
    ):
        value = document.get(name)
        if value == "auto":
            found.autos.add(setting)
        elif value is not None:
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise DocumentError(f"{where}: {name}: {value!r} is not a positive whole number")
            found.state(setting, value, f"{where}: {name}")


def _read_optimizer(found: Settings, document: Mapping[str, object], where: str) -> None:
    section = _section(document, "optimizer", where)
    name = (section or {}).get("type")
    if name is None:
        return
    if not isinstance(name, str):
        raise DocumentError(f"{where}: optimizer.type: expected a text, found {name!r:.40}")
    found.state("optimizer", parse_optimizer(f"{where}: optimizer.type", name), where)


def recompute_of(is_on: bool) -> Recompute:
    """Checkpointing as a switch."""
    return Recompute.FULL if is_on else Recompute.NONE
