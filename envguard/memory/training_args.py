"""Reads transformers' TrainingArguments as JSON, with transformers' own defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import DocumentError
from envguard.memory.deepspeed_config import recompute_of
from envguard.memory.fsdp_config import read_fsdp, sharding_of
from envguard.memory.job import Place, Precision
from envguard.memory.parsing import parse_optimizer
from envguard.memory.settings import Settings
from envguard.memory.stated_values import stated_flag, stated_number, stated_text

if TYPE_CHECKING:
    from envguard.memory.stated_values import Object

# transformers 5: per_device_train_batch_size and optim of TrainingArguments
_DEFAULT_BATCH = 8
_DEFAULT_OPTIMIZER = "adamw_torch_fused"
_MOST = 10**6


def read_training_arguments(document: Object, where: str) -> Settings:
    """Settings of a TrainingArguments JSON; ``deepspeed`` inside it is read by the caller.

    Raises:
        DocumentError: A field has the wrong form; the message names it.
    """
    found = Settings()
    name = "per_device_train_batch_size"
    batch = _count(document, name, where)
    is_default = batch is None
    found.state("micro_batch", batch or _DEFAULT_BATCH, f"{where}: {name}", is_default=is_default)
    name = "gradient_accumulation_steps"
    steps = _count(document, name, where)
    found.state("accumulate", steps or 1, f"{where}: {name}", is_default=steps is None)
    is_default = not ({"bf16", "fp16"} & document.keys())
    place = f"{where}: bf16, fp16"
    found.state("precision", _precision(document, where), place, is_default=is_default)
    optimizer = stated_text(document.get("optim", _DEFAULT_OPTIMIZER), f"{where}: optim")
    place = f"{where}: optim"
    if document.get("deepspeed") is None or "optim" in document:
        is_default = "optim" not in document
        found.state("optimizer", parse_optimizer(place, optimizer), place, is_default=is_default)
    for length in ("max_length", "max_seq_length"):
        found.state("seq_len", _count(document, length, where), f"{where}: {length}")
    _read_recompute(found, document, where)
    _read_fsdp(found, document, where)
    return found


def _count(document: Object, name: str, where: str) -> int | None:
    value = document.get(name)
    if value is None:
        return None
    return stated_number(value, f"{where}: {name}", least=1, most=_MOST)


def _flag(document: Object, name: str, where: str) -> bool:
    value = document.get(name)
    return value is not None and stated_flag(value, f"{where}: {name}")


def _precision(document: Object, where: str) -> Precision:
    is_bf16, is_fp16 = (_flag(document, name, where) for name in ("bf16", "fp16"))
    if is_bf16 and is_fp16:
        raise DocumentError(f"{where}: bf16 and fp16 are both true")
    if is_fp16:
        return Precision.FP16
    # neither: DeepSpeed trains in fp32; torch in the dtype of the weights, which is not said here
    return Precision.BF16 if is_bf16 else Precision.FP32


def _read_recompute(found: Settings, document: Object, where: str) -> None:
    fsdp = document.get("fsdp_config")
    if isinstance(fsdp, dict) and any("activation_checkpointing" in key for key in fsdp):
        return  # FSDP's own switch wins, and is read with it
    names = ("gradient_checkpointing", "activation_checkpointing")
    is_on = any(_flag(document, name, where) for name in names)
    is_default = not (set(names) & document.keys())
    found.state("recompute", recompute_of(is_on), f"{where}: {names[0]}", is_default=is_default)


def _read_fsdp(found: Settings, document: Object, where: str) -> None:
    value = document.get("fsdp")
    if not value:
        return
    words = value.split() if isinstance(value, str) else value
    words = [] if words is True else words
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise DocumentError(f"{where}: fsdp: expected words such as 'full_shard auto_wrap'")
    section = document.get("fsdp_config") or {}
    if not isinstance(section, dict):
        raise DocumentError(f"{where}: fsdp_config: give its content here, not {section!r:.40}")
    place = f"{where}: fsdp"
    for word in words:
        if word == "offload":
            found.state("params_on", Place.CPU, place)
            found.state("optimizer_on", Place.CPU, place)
        elif word != "auto_wrap":
            found.state("strategy", sharding_of(word, place), place)
    read_fsdp(found, section, f"{where}: fsdp_config")
    if "strategy" not in found.values:
        found.state("strategy", sharding_of("full_shard", place), place, is_default=True)
