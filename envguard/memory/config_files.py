"""Reads --config: a DeepSpeed JSON, an accelerate YAML or a TrainingArguments JSON, by content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import DocumentError, InputError
from envguard.memory.accelerate_config import deepspeed_file, read_accelerate
from envguard.memory.deepspeed_config import read_deepspeed
from envguard.memory.flat_yaml import parse_flat_yaml
from envguard.memory.model_file import read_json_object
from envguard.memory.settings import Settings, merge_settings
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
    document = _decode(path)
    where = path.name
    keys = document.keys()
    if keys & _ACCELERATE:
        parts = [read_accelerate(document, where)]
        name = deepspeed_file(document, where)
        return parts + (_read_inner(path, name) if name else [])
    # bf16 is an object in DeepSpeed's file and a flag in transformers'
    is_deepspeed = keys & _DEEPSPEED or isinstance(document.get("bf16"), dict)
    if is_deepspeed and "deepspeed" not in keys and "output_dir" not in keys:
        return [read_deepspeed(document, where)]
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
        raise DocumentError(f"{path}: deepspeed: expected an object or a file, found {inner!r:.40}")
    return [own, *_read_inner(path, inner)]


def _read_inner(path: Path, name: str) -> list[Settings]:
    target = path.parent / name
    if not target.is_file():
        raise InputError(f"{path}: names {name!r}, which is not there")
    return [read_deepspeed(read_json_object(target), target.name)]


def _decode(path: Path) -> Mapping[str, object]:
    if path.suffix.lower() in {".yaml", ".yml"}:
        return parse_flat_yaml(_read_yaml(path), path.name)
    return read_json_object(path)


def _read_yaml(path: Path) -> str:
    try:
        if path.stat().st_size > _YAML_LIMIT:
            raise InputError(f"{path}: is larger than 1 MiB, no configuration is")
        return path.read_text(encoding="utf-8")
    except OSError as err:
        raise InputError(f"{path}: cannot be read: {err.strerror or err}") from err
    except UnicodeDecodeError as err:
        raise InputError(f"{path}: is not UTF-8 text: {err.reason}") from err
