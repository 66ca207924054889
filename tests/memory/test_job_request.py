"""None"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from packaging.version import Version

from envguard.errors import InputError
from envguard.memory.job import (
    JobOption,
    Optimizer,
    Placement,
    Precision,
    Quantized,
    Recompute,
    SaveMode,
    Strategy,
)
from envguard.memory.job_request import JobRequest, ResolvedJob, resolve
from tests.memory.jobs import table

if TYPE_CHECKING:
    from pathlib import Path


def asked(*, params: str | None = "7.6B", **options: Any) -> ResolvedJob:
    """Options under their names, ``-`` written as ``_``."""
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return resolve(JobRequest(params=params, options=named), table())


def test_what_is_not_stated_is_assumed_and_said() -> None:
    found = asked(strategy="zero3")
    assert found.job.gpus == 1
    assert found.job.precision is Precision.BF16
    assert found.job.save is SaveMode.TRAINER
    assert found.job.recompute is Recompute.FULL
    assert found.job.unstated == frozenset(JobOption)
    words = " ".join(found.assumptions)
    for part in ("--gpus", "--dtype", "--micro-batch", "--seq-len", "--recompute", "--save",
                 "zero.Init", "deepspeed 0.19.8"):  # fmt: skip
        assert part in words


def test_what_is_stated_is_not_assumed() -> None:
    found = asked(
        strategy="zero2",
        gpus=8,
        dtype="fp16",
        micro_batch=2,
        seq_len=4096,
        accumulate=4,
        recompute="full",
        save="16bit",
        optimizer="adamw-8bit",
        offload="optimizer",
        attention="flash",
        lora="rank=8,targets=qv",
    )
    job = found.job
    assert job.strategy is Strategy.ZERO2
    assert (job.gpus, job.micro_batch, job.seq_len, job.accumulates) == (8, 2, 4096, True)
    assert job.optimizer is Optimizer.ADAMW_8BIT
    assert job.optimizer_on is Placement.CPU
    assert job.lora is not None
    assert (job.lora.rank, job.lora.covers_all) == (8, False)
    assert len(found.assumptions) == 1  # the releases


def test_only_what_is_stated_is_closed() -> None:
    found = asked(strategy="fsdp-full", recompute="none", seq_len=1024)
    assert found.job.unstated == {JobOption.PRECISION, JobOption.OPTIMIZER, JobOption.SAVE}


def test_a_state_dict_type_says_how_fsdp_saves(tmp_path: Path) -> None:
    config = tmp_path / "fsdp.yaml"
    config.write_text(
        "distributed_type: FSDP\nnum_processes: 4\nfsdp_config:\n"
        "  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_state_dict_type: FULL_STATE_DICT\n"
    )
    found = resolve(JobRequest(params="7.6B", configs=(config,)), table())
    assert JobOption.SAVE not in found.job.unstated


@pytest.mark.parametrize(("params", "usual"), [("1.2B", "none"), ("2.0B", "full"), ("70B", "full")])
def test_small_models_are_taken_to_keep_their_activations(params: str, usual: str) -> None:
    found = asked(params=params, strategy="zero2")
    assert found.job.recompute is Recompute(usual)
    (words,) = [words for words in found.assumptions if "--recompute" in words]
    assert words.startswith("no activation") is (usual == "none")


def test_more_than_eight_gpus_stand_in_nodes_of_eight() -> None:
    assert asked(strategy="zero3", gpus=32).job.nodes == 4
    assert asked(strategy="zero3", gpus=32, nodes=2).job.ranks_per_node == 16
    assert asked(strategy="zero3", gpus=12).job.nodes == 1


def test_releases_are_stated_or_installed_or_the_newest_known() -> None:
    request = JobRequest(
        params="7B",
        versions={"deepspeed": "0.14.2"},
        installed={"transformers": Version("4.46.3"), "deepspeed": Version("0.17.0")},
        options={"strategy": "zero2"},
    )
    versions = resolve(request, table()).job.versions
    assert str(versions.deepspeed) == "0.14.2"
    assert str(versions.transformers) == "4.46.3"
    assert str(versions.safetensors) == "0.8.0"


def test_qlora_brings_adapters() -> None:
    found = asked(strategy="ddp", qlora=True)
    assert found.job.quantized is Quantized.NF4
    assert found.job.lora is not None
    assert any("--lora" in words for words in found.assumptions)


def test_auto_sizes_follow_the_hidden_width_as_in_transformers(tmp_path: Path) -> None:
    sizes = ("reduce_bucket_size", "stage3_prefetch_bucket_size",
             "stage3_param_persistence_threshold")  # fmt: skip
    zero = {"stage": 3, **dict.fromkeys(sizes, "auto")}
    path = tmp_path / "ds.json"
    path.write_text(json.dumps({"zero_optimization": zero, "bf16": {"enabled": True}}))
    request = JobRequest(params="8.03B", configs=(path,), options={"gpus": 8})
    job = resolve(request, table()).job
    assert job.shape.hidden == 4096
    assert job.zero.reduce_bucket == 16_777_216
    assert job.zero.prefetch_bucket == 15_099_494
    assert job.zero.persistence == 40_960
    assert job.zero.gathers_on_save is False  # DeepSpeed's default, the file leaves it out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "state the strategy"),
        ({"strategy": "zero9"}, "--strategy: 'zero9' is none of ddp, zero1"),
        ({"strategy": "ddp", "gpus": 0}, "--gpus: 0 is not a whole number"),
        ({"strategy": "ddp", "gpus": -8}, "--gpus: -8 is not a whole number"),
        ({"strategy": "ddp", "gpus": 10**9}, "--gpus: 1000000000 is not a whole number"),
        ({"strategy": "ddp", "gpus": 6, "nodes": 4}, "--gpus 6 cannot be spread evenly"),
        ({"strategy": "ddp", "seq_len": 10**9}, "--seq-len: 1000000000"),
        ({"strategy": "ddp", "micro_batch": -1}, "--micro-batch: -1"),
        ({"strategy": "ddp", "dtype": "fp4"}, "--dtype: 'fp4' is none of"),
        ({"strategy": "ddp", "optimizer": "magic"}, "--optimizer: 'magic' is none of"),
        ({"strategy": "ddp", "recompute": "some"}, "--recompute: 'some' is none of"),
        ({"strategy": "ddp", "attention": "no"}, "--attention: 'no' is none of"),
        ({"strategy": "ddp", "save": "never"}, "--save: 'never' is none of"),
        ({"strategy": "ddp", "lora": "rank=0"}, "--lora: rank '0'"),
        ({"strategy": "ddp", "lora": "rank=x"}, "--lora: rank 'x'"),
        ({"strategy": "ddp", "lora": "alpha=3"}, "--lora: 'alpha' is none of rank, targets"),
        ({"strategy": "ddp", "lora": "rank=60000"}, "more adapter parameters than the model"),
        ({"strategy": "ddp", "offload": "optimizer"}, "--offload: ddp offloads nothing"),
        ({"strategy": "zero2", "offload": "param,optimizer"}, "offloaded by zero3, not by zero2"),
        ({"strategy": "fsdp-full", "offload": "optimizer"}, "parameters and optimizer together"),
        (
            {"strategy": "fsdp-full", "offload": "param,optimizer", "offload_device": "nvme"},
            "to the cpu only, not to nvme",
        ),
        ({"strategy": "zero3", "offload": "all"}, "--offload: 'all' is none of"),
        ({"strategy": "zero3", "offload": "optimizer", "offload_device": "tape"}, "'tape' is none"),
        ({"strategy": "zero3", "dtype": "pure-bf16"}, "pure-bf16 contradicts zero3"),
        ({"strategy": "zero2", "save": "dcp-async"}, "--save dcp-async: DeepSpeed does not"),
        ({"strategy": "ddp", "save": "sharded"}, "--save sharded: ddp holds no shards"),
        ({"strategy": "ddp", "qlora": True, "dtype": "fp32"}, "--qlora contradicts --dtype fp32"),
        (
            {"strategy": "zero2", "optimizer": "paged-adamw", "offload": "optimizer"},
            "a paged optimizer pages by itself",
        ),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        asked(**options)


@pytest.mark.parametrize("text", ["7.6", "-7B", "B", "7.6 billion", "1e9", "999T", "0.5", ""])
def test_a_number_of_parameters_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--params: "):
        asked(params=text, strategy="ddp")


@pytest.mark.parametrize(
    ("text", "count"),
    [("7.6B", 7_600_000_000), ("350M", 350_000_000), ("7600000000", 7_600_000_000), ("1t", 10**12)],
)
def test_parameters_are_read_in_everyday_units(text: str, count: int) -> None:
    assert asked(params=text, strategy="ddp").job.shape.params == count


def test_one_gpu_needs_no_strategy_and_that_is_said() -> None:
    resolved = asked(gpus=1)
    assert resolved.job.strategy is Strategy.DDP
    assert "one GPU holds everything (--strategy)" in resolved.assumptions
    with pytest.raises(InputError, match="state the strategy"):
        asked(gpus=2)


def test_one_model_is_needed_and_enough(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"state the model: --params 7\.6B or --model"):
        asked(params=None, strategy="ddp")
    request = JobRequest(params="7B", model=tmp_path, options={"strategy": "ddp"})
    with pytest.raises(InputError, match="exclude each other"):
        resolve(request, table())


def test_an_option_against_a_file_names_both(tmp_path: Path) -> None:
    path = tmp_path / "ds.json"
    path.write_text(json.dumps({"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}))
    request = JobRequest(params="7B", configs=(path,), options={"strategy": "zero2"})
    with pytest.raises(InputError, match=r"--strategy is zero2, but ds\.json: zero_optimization"):
        resolve(request, table())
