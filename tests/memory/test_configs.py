"""None"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from envguard.errors import InputError
from envguard.memory.configs import read_configs
from envguard.memory.job import Optimizer, Placement, Precision, Recompute, Strategy

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.memory.settings import Settings


def read(folder: Path, **files: object) -> Settings:
    """Write files (``name_json``, ``name_yaml``) and read them in order."""
    paths = []
    for name, content in files.items():
        path = folder / name.replace("_json", ".json").replace("_yaml", ".yaml")
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        paths.append(path)
    return read_configs(paths)


# The configuration of transformers' documentation.
AUTO: dict[str, Any] = {
    "bf16": {"enabled": "auto"},
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
        "offload_param": {"device": "cpu", "pin_memory": True},
        "overlap_comm": True,
        "contiguous_gradients": True,
        "sub_group_size": 1e9,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto",
        "stage3_max_live_parameters": 1e9,
        "stage3_max_reuse_distance": 1e9,
        "stage3_gather_16bit_weights_on_model_save": True,
    },
    "gradient_accumulation_steps": "auto",
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
}


def test_a_deepspeed_file_is_read_as_deepspeed_reads_it(tmp_path: Path) -> None:
    found = read(tmp_path, ds_json=AUTO)
    assert found.get("strategy", Strategy) is Strategy.ZERO3
    assert found.get("optimizer_on", Placement) is Placement.CPU
    assert found.get("params_on", Placement) is Placement.CPU
    assert found.get("sub_group", int) == 1_000_000_000
    assert found.get("gathers_on_save", bool) is True
    assert found.autos == {
        *("reduce_bucket", "prefetch_bucket", "persistence", "precision", "micro_batch"),
        "accumulate",
    }


def test_deepspeed_without_a_dtype_trains_in_fp32(tmp_path: Path) -> None:
    found = read(tmp_path, ds_json={"zero_optimization": {"stage": 1}})
    assert found.get("precision", Precision) is Precision.FP32
    assert found.get("strategy", Strategy) is Strategy.ZERO1


def test_the_deprecated_offload_switch_still_counts(tmp_path: Path) -> None:
    found = read(tmp_path, ds_json={"zero_optimization": {"stage": 2, "cpu_offload": True}})
    assert found.get("optimizer_on", Placement) is Placement.CPU


def test_training_arguments_fill_in_auto(tmp_path: Path) -> None:
    arguments = {
        "output_dir": "out",
        "bf16": True,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "gradient_checkpointing": True,
        "deepspeed": "ds.json",
    }
    (tmp_path / "ds.json").write_text(json.dumps(AUTO))
    found = read(tmp_path, args_json=arguments)
    assert found.get("strategy", Strategy) is Strategy.ZERO3
    assert found.get("precision", Precision) is Precision.BF16
    assert found.get("micro_batch", int) == 4
    assert found.get("accumulate", int) == 2
    assert found.get("recompute", Recompute) is Recompute.FULL


def test_training_arguments_have_transformers_defaults(tmp_path: Path) -> None:
    found = read(tmp_path, args_json={"output_dir": "out", "bf16": True})
    assert found.get("micro_batch", int) == 8
    assert found.get("optimizer", Optimizer) is Optimizer.ADAMW_FUSED
    assert found.get("recompute", Recompute) is Recompute.NONE


def test_a_mismatch_is_refused_as_transformers_refuses_it(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(
        json.dumps({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2},
                    "bf16": {"enabled": True}})
    )  # fmt: skip
    arguments = {"output_dir": "o", "bf16": True, "per_device_train_batch_size": 4,
                 "deepspeed": "ds.json"}  # fmt: skip
    with pytest.raises(InputError, match=r"train_micro_batch_size_per_gpu is 2, but args\.json"):
        read(tmp_path, args_json=arguments)


def test_fsdp_of_training_arguments(tmp_path: Path) -> None:
    arguments = {"output_dir": "o", "bf16": True, "fsdp": "shard_grad_op auto_wrap",
                 "fsdp_config": {"state_dict_type": "SHARDED_STATE_DICT",
                                 "activation_checkpointing": True}}  # fmt: skip
    found = read(tmp_path, args_json=arguments)
    assert found.get("strategy", Strategy) is Strategy.FSDP_GRAD_OP
    assert found.get("fsdp_sharded", bool) is True
    assert found.get("efficient_load", bool) is False  # transformers' default
    assert found.get("recompute", Recompute) is Recompute.FULL


def test_fsdp_offload_moves_weights_and_optimizer(tmp_path: Path) -> None:
    arguments = {"output_dir": "o", "bf16": True, "fsdp": ["full_shard", "offload"]}
    found = read(tmp_path, args_json=arguments)
    assert found.get("params_on", Placement) is Placement.CPU
    assert found.get("optimizer_on", Placement) is Placement.CPU


def test_accelerate_with_fsdp(tmp_path: Path) -> None:
    text = (
        "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n"
        "  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n  fsdp_offload_params: false\n"
        "  fsdp_state_dict_type: SHARDED_STATE_DICT\n  fsdp_cpu_ram_efficient_loading: true\n"
        "mixed_precision: bf16\nnum_machines: 2\n"
        "num_processes: 16\n"
    )
    found = read(tmp_path, a_yaml=text)
    assert found.get("strategy", Strategy) is Strategy.FSDP_GRAD_OP
    assert found.get("fsdp_sharded", bool) is True
    assert found.get("efficient_load", bool) is True
    assert (found.get("gpus", int), found.get("nodes", int)) == (16, 2)
    assert found.get("precision", Precision) is Precision.BF16


def test_accelerate_with_deepspeed(tmp_path: Path) -> None:
    text = (
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n"
        "  offload_optimizer_device: cpu\n  offload_param_device: none\n"
        "  zero3_init_flag: false\n  zero3_save_16bit_model: true\nmixed_precision: no\n"
    )
    found = read(tmp_path, a_yaml=text)
    assert found.get("strategy", Strategy) is Strategy.ZERO3
    assert found.get("optimizer_on", Placement) is Placement.CPU
    assert found.get("params_on", Placement) is Placement.GPU
    assert found.get("zero_init", bool) is False
    assert found.get("gathers_on_save", bool) is True
    assert found.get("precision", Precision) is Precision.FP32


def test_accelerate_may_name_a_deepspeed_file(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(AUTO))
    text = (
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
        "mixed_precision: bf16\n"
    )
    found = read(tmp_path, a_yaml=text)
    assert found.get("strategy", Strategy) is Strategy.ZERO3
    assert found.get("precision", Precision) is Precision.BF16


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"zero_optimization": {"stage": 4}}, "ds.json: zero_optimization.stage: 4 is none of"),
        ({"zero_optimization": {"stage": "two"}}, "zero_optimization.stage: 'two'"),
        ({"zero_optimization": 2}, "zero_optimization: expected an object"),
        (
            {"zero_optimization": {"stage": 3, "offload_param": {"device": "tape"}}},
            "zero_optimization.offload_param.device: 'tape'",
        ),
        (
            {"zero_optimization": {"stage": 2, "reduce_bucket_size": -5}},
            "zero_optimization.reduce_bucket_size: -5",
        ),
        (
            {
                "zero_optimization": {"stage": 2},
                "bf16": {"enabled": True},
                "fp16": {"enabled": True},
            },
            "bf16.enabled and fp16.enabled are both true",
        ),
        (
            {"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 0},
            "train_micro_batch_size_per_gpu: 0 is not a whole number from 1",
        ),
        (
            {"zero_optimization": {"stage": 2}, "optimizer": {"type": "Wizard"}},
            "optimizer.type: 'Wizard' is none of",
        ),
        ({"output_dir": "o", "fsdp": "half_shard"}, "fsdp: 'half_shard' is no FSDP sharding"),
        ({"output_dir": "o", "bf16": True, "fp16": True}, "bf16 and fp16 are both true"),
        ({"output_dir": "o", "per_device_train_batch_size": -1}, "per_device_train_batch_size: -1"),
        ({"output_dir": "o", "deepspeed": "absent.json"}, "names 'absent.json'"),
        ({"nothing": "known"}, "is neither a DeepSpeed configuration"),
    ],
)  # fmt: skip
def test_a_bad_field_is_named(tmp_path: Path, document: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, ds_json=document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("distributed_type: MEGATRON\n", "distributed_type: 'MEGATRON' is none of"),
        ("distributed_type: FSDP\nmixed_precision: int3\n", "mixed_precision: 'int3'"),
        ("distributed_type: NO\nnum_processes: 0\n", "num_processes: 0"),
        (
            "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 7\n",
            "deepspeed_config.zero_stage: 7",
        ),
        (
            "distributed_type: FSDP\nfsdp_config:\n  fsdp_state_dict_type: HALF\n",
            "fsdp_config.fsdp_state_dict_type: 'HALF'",
        ),
    ],
)
def test_a_bad_line_of_accelerate_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, a_yaml=text)
