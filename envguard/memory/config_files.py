"""Reads --config: a DeepSpeed JSON, an accelerate YAML or a TrainingArguments JSON, by content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import DocumentError, InputError
from envguard.files import is_file, read_utf8
from envguard.memory.accelerate_config import deepspeed_file, read_accelerate
from envguard.memory.deepspeed_config import read_deepspeed
from envguard.memory.flat_yaml import parse_flat_yaml
from envguard.memory.model_file import JsonObject, read_json
from envguard.memory.settings import Settings, merge_settings
from envguard.memory.stated_values import shown
from envguard.memory.training_args import read_training_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

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
