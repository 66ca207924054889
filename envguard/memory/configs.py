"""Reads --config as each framework does: DeepSpeed, accelerate, FSDP, TrainingArguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import DocumentError, InputError
from envguard.facts.sentences import say
from envguard.files import is_file, read_utf8
from envguard.memory.flat_yaml import parse_flat_yaml
from envguard.memory.job import Optimizer, Placement, Precision, Recompute, Strategy
from envguard.memory.model_config import JsonObject, read_json
from envguard.memory.settings import (
    Settings,
    merge_settings,
    parse_optimizer,
    shown,
    stated_choice,
    stated_flag,
    stated_number,
    stated_section,
    stated_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from envguard.memory.settings import Object


_STAGES: Mapping[str | int, Strategy] = {
    0: Strategy.DDP,
    1: Strategy.ZERO1,
    2: Strategy.ZERO2,
    3: Strategy.ZERO3,
}
_DEVICES: Mapping[str | int, Placement] = {
    "none": Placement.GPU,
    "cpu": Placement.CPU,
    "nvme": Placement.NVME,
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
            say(
                "{where}: activation_checkpointing does not switch checkpointing on by "
                "itself; state --recompute",
                where=where,
            )
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
        if section is not None and on is not Placement.GPU:
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
        optimizer = parse_optimizer(place, stated_text(name, place))
        if optimizer is Optimizer.ADAMW:  # DeepSpeed's own, which is fused
            optimizer = Optimizer.ADAMW_FUSED
        found.state("optimizer", optimizer, where)


def recompute_of(is_on: bool) -> Recompute:
    """Checkpointing as a switch."""
    return Recompute.FULL if is_on else Recompute.NONE


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
    _read_fsdp_offload(found, fields, where)
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


def _read_fsdp_offload(
    found: Settings, fields: Mapping[str, tuple[str, object]], where: str
) -> None:
    for name in ("offload_params", "cpu_offload"):
        if name in fields and fields[name][1] is not None:
            key, value = fields[name]
            place = Placement.CPU if _flag(value, f"{where}.{key}") else Placement.GPU
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


_ACCELERATE_STAGES: Mapping[str | int, Strategy] = {
    0: Strategy.DDP,
    1: Strategy.ZERO1,
    2: Strategy.ZERO2,
    3: Strategy.ZERO3,
}
_ACCELERATE_DEVICES: Mapping[str | int, Placement] = {
    "cpu": Placement.CPU,
    "nvme": Placement.NVME,
    "none": Placement.GPU,
}
_PRECISIONS = {"bf16": Precision.BF16, "fp16": Precision.FP16, "no": Precision.FP32}
_MOST_PROCESSES = 10**6


def read_accelerate(document: Object, where: str) -> Settings:
    """Settings of an accelerate configuration; a DeepSpeed file it names is read by the caller.

    Raises:
        DocumentError: A field has the wrong form or an impossible value; the message names it.
    """
    found = Settings()
    kind = _kind(document)
    match kind:
        case "FSDP":
            section = _accelerate_section(document, "fsdp_config", where)
            read_fsdp(found, section, f"{where}: fsdp_config")
            if "strategy" not in found.values:
                found.state("strategy", sharding_of("full_shard", where), f"{where}: fsdp_config")
        case "DEEPSPEED":
            _read_deepspeed_of_accelerate(
                found, _accelerate_section(document, "deepspeed_config", where), where
            )
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
    path = _accelerate_section(document, "deepspeed_config", where).get("deepspeed_config_file")
    return path if isinstance(path, str) and path else None


def _kind(document: Object) -> str:
    """The kind of distribution; YAML reads an unquoted NO as false."""
    value = document.get("distributed_type", "NO")
    return "NO" if value is False else str(value).upper()


def _accelerate_section(document: Object, name: str, where: str) -> Object:
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
            found.state(setting, stated_number(value, place, least=1, most=_MOST_PROCESSES), place)


def _read_deepspeed_of_accelerate(found: Settings, section: Object, where: str) -> None:
    if section.get("deepspeed_config_file"):
        return  # accelerate refuses the other keys beside a file
    place = f"{where}: deepspeed_config"
    strategy = stated_choice(
        section.get("zero_stage", 2), f"{place}.zero_stage", _ACCELERATE_STAGES
    )
    found.state("strategy", strategy, f"{place}.zero_stage")
    for name, setting in (
        ("offload_optimizer_device", "optimizer_on"),
        ("offload_param_device", "params_on"),
    ):
        device = section.get(name)
        if device is None or str(device).lower() == "none":
            found.state(setting, Placement.GPU, place)
        else:
            on = stated_choice(device, f"{place}.{name}", _ACCELERATE_DEVICES)
            found.state(setting, on, f"{place}.{name}")
    for name, setting in (
        ("zero3_save_16bit_model", "gathers_on_save"),
        ("zero3_init_flag", "zero_init"),
    ):
        value = section.get(name)
        if strategy is Strategy.ZERO3 and isinstance(value, bool):
            found.state(setting, value, f"{place}.{name}")


# transformers 5: per_device_train_batch_size and optim of TrainingArguments
_DEFAULT_BATCH = 8
_DEFAULT_OPTIMIZER = "adamw_torch_fused"
_MOST_ARGUMENTS = 10**6


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
    return stated_number(value, f"{where}: {name}", least=1, most=_MOST_ARGUMENTS)


def _argument_flag(document: Object, name: str, where: str) -> bool:
    value = document.get(name)
    return value is not None and stated_flag(value, f"{where}: {name}")


def _precision(document: Object, where: str) -> Precision:
    is_bf16, is_fp16 = (_argument_flag(document, name, where) for name in ("bf16", "fp16"))
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
    is_on = any(_argument_flag(document, name, where) for name in names)
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
            found.state("params_on", Placement.CPU, place)
            found.state("optimizer_on", Placement.CPU, place)
        elif word != "auto_wrap":
            found.state("strategy", sharding_of(word, place), place)
    read_fsdp(found, section, f"{where}: fsdp_config")
    if "strategy" not in found.values:
        found.state("strategy", sharding_of("full_shard", place), place, is_default=True)


_YAML_LIMIT = 1024 * 1024
_DEEPSPEED = frozenset(
    {
        "zero_optimization",
        "train_batch_size",
        "train_micro_batch_size_per_gpu",
        "zero_allow_untested_optimizer",
    }
)
_ACCELERATE = frozenset({"compute_environment", "distributed_type"})
_TRAINING = frozenset(
    {
        "output_dir",
        "per_device_train_batch_size",
        "deepspeed",
        "fsdp",
        "gradient_checkpointing",
        "num_train_epochs",
        "learning_rate",
        "bf16",
        "fp16",
        "optim",
    }
)  # fmt: skip


def read_configs(paths: Sequence[Path]) -> Settings:
    """Settings of all files together.

    Raises:
        InputError: A file cannot be read, is of no known kind, or contradicts another.
    """
    return merge_settings(part for path in paths for part in _read(path))


def _read(path: Path) -> list[Settings]:
    found = _decode(path)
    document, where = found.document, path.name
    keys = document.keys()
    if keys & _ACCELERATE:
        parts = [read_accelerate(document, where)]
        name = deepspeed_file(document, where)
        return parts + (_read_inner(path, name) if name else [])
    # bf16 is an object in DeepSpeed's file and a flag in transformers'
    is_deepspeed = keys & _DEEPSPEED or isinstance(document.get("bf16"), dict)
    if is_deepspeed and "deepspeed" not in keys and "output_dir" not in keys:
        return [_read_deepspeed(found, path)]
    if keys & _TRAINING:
        return _read_training(document, path)
    raise DocumentError(
        f"{path}: is neither a DeepSpeed configuration nor accelerate's nor TrainingArguments",
        hint="a DeepSpeed file has zero_optimization, accelerate's distributed_type, "
        "TrainingArguments per_device_train_batch_size",
    )


def _read_training(document: Mapping[str, object], path: Path) -> list[Settings]:
    own = read_training_arguments(document, path.name)
    inner = document.get("deepspeed")
    if inner is None:
        return [own]
    if isinstance(inner, dict):
        return [own, read_deepspeed(inner, f"{path.name}: deepspeed")]
    if not isinstance(inner, str):
        raise DocumentError(
            f"{path}: deepspeed: expected an object or a file, found {shown(inner)}"
        )
    return [own, *_read_inner(path, inner)]


def _read_inner(path: Path, name: str) -> list[Settings]:
    target = path.parent / name
    if not is_file(target):
        raise InputError(f"{path}: names {shown(name)}, which is not there")
    return [_read_deepspeed(read_json(target), target)]


def _read_deepspeed(found: JsonObject, path: Path) -> Settings:
    """A DeepSpeed file.

    Raises:
        DocumentError: A key is stated twice, which DeepSpeed refuses at any depth, or a value
            has the wrong form.

    Source: DeepSpeedConfig of deepspeed 0.19, ``runtime/config.py``: the file is decoded with a
        hook that raises on duplicate keys.
    """
    if found.doubled:
        names = ", ".join(map(shown, found.doubled[:5]))
        raise DocumentError(
            f"{path}: states {names} twice in one object, and DeepSpeed refuses such a file",
            hint="leave one of them",
        )
    return read_deepspeed(found.document, path.name)


def _decode(path: Path) -> JsonObject:
    if path.suffix.lower() in {".yaml", ".yml"}:
        return JsonObject(parse_flat_yaml(read_utf8(path, _YAML_LIMIT), path.name))
    return read_json(path)
