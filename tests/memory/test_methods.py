"""Methods with rollouts, GPUs that share a sample, what goes to the host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envguard.facts.findings import Status
from envguard.memory.job import (
    Engine,
    Job,
    Lora,
    Method,
    Optimizer,
    Parallel,
    Placement,
    Precision,
    Quantized,
    Recompute,
    Rollout,
    Strategy,
)
from envguard.memory.job_request import JobRequest, resolve
from envguard.memory.plan import GIB, MemoryPhase, Planner, Side
from envguard.memory.plan_findings import plan_findings
from envguard.memory.verdict import judge
from tests.memory.jobs import job, likely, limits, lines, plan, table


def asked(**options: Any) -> Job:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    request = JobRequest(params="7.6B", options={"strategy": "zero3", "gpus": 8, **named})
    return resolve(request, table()).job


def test_an_engine_in_the_same_gpus_takes_its_share_of_the_whole_memory() -> None:
    awake = asked(method="grpo", rollout="colocate", rollout_memory="0.4")
    found = plan(awake, gpu=80)
    for phase in (MemoryPhase.STEP, MemoryPhase.SAVE):
        assert likely(found, phase, Side.GPU, "rollout.engine_awake") == 0.4 * 80 * GIB


def test_an_engine_that_sleeps_leaves_the_save_alone() -> None:
    asleep = asked(method="grpo", rollout="colocate", rollout_sleep=1, lora="rank=16")
    found = plan(asleep, gpu=80)
    assert "rollout.engine" not in lines(found, MemoryPhase.SAVE, Side.GPU)
    # adapters under ZeRO-3 are merged into weights that every GPU has gathered
    step = lines(found, MemoryPhase.STEP, Side.GPU)
    assert step["rollout.engine"].amount.likely == pytest.approx(0.3 * 80 * GIB)
    assert step["rollout.gathered"].amount.likely == 2 * 7.6e9
    host = lines(found, MemoryPhase.STEP, Side.HOST)["rollout.weights_on_host"].amount
    assert host.likely == pytest.approx(1.44 * 8 * 2 * 7.6e9)


def test_an_engine_elsewhere_is_sent_one_parameter_at_a_time() -> None:
    wanted = asked(method="grpo", rollout="separate")
    names = {line.formula for line in plan(wanted).phase(MemoryPhase.STEP).gpu.lines}
    assert not names & {"rollout.engine", "rollout.engine_awake", "rollout.kv_cache"}


def test_a_method_that_generates_does_it_by_itself_where_nothing_is_stated() -> None:
    assert asked(method="grpo").engine.rollout is Rollout.OWN
    assert asked(method="dpo").engine.rollout is Rollout.NONE


def test_grpo_may_have_a_reference() -> None:
    found = lines(plan(asked(method="grpo")), MemoryPhase.SAVE, Side.GPU)
    amount = found["reference.possible"].amount
    assert (amount.likely, amount.high) == (0, 15.2e9)


def test_tensor_parallelism_divides_what_is_whole_and_not_what_is_shared() -> None:
    one = job("fsdp-full", gpus=8, optimizer=Optimizer.ADAMW_FUSED)
    two = replace(one, parallel=Parallel(tensor=2))
    for phase, name, factor in (
        (MemoryPhase.SAVE, "fsdp.weights", 1),
        (MemoryPhase.STEP, "fsdp.units", 2),
        (MemoryPhase.STEP, "hf_llama_bf16_sdpa", 2),
    ):
        whole = likely(plan(one), phase, Side.GPU, name)
        assert likely(plan(two), phase, Side.GPU, name) == pytest.approx(whole / factor)


def test_context_parallelism_divides_tokens() -> None:
    one = job("zero3", gpus=8, seq_len=8192)
    two = replace(one, parallel=Parallel(context=4))
    name = "logits_16bit_model_hf_loss"
    whole = likely(plan(one), MemoryPhase.STEP, Side.GPU, name)
    assert likely(plan(two), MemoryPhase.STEP, Side.GPU, name) == pytest.approx(whole / 4)


def test_offloaded_activations_stand_on_the_host() -> None:
    wanted = job("zero3", seq_len=16384, recompute=Recompute.FULL,
                 optimizer=Optimizer.ADAMW_FUSED, activations_on=Placement.CPU)  # fmt: skip
    found = plan(wanted)
    kept = 2 * 16384 * 3584 * 28
    inputs = likely(found, MemoryPhase.STEP, Side.GPU, "full_recompute")
    assert inputs == pytest.approx(kept * 2 / 28)
    host = likely(found, MemoryPhase.STEP, Side.HOST, "activations.on_host")
    assert host == pytest.approx(1.44 * kept * 4)


@pytest.mark.parametrize(
    ("optimizer", "least", "most"),
    [
        (Optimizer.ADAMW_4BIT, 1.0, 1.2),
        (Optimizer.PAGED_LION_8BIT, 1.0, 1.1),
        (Optimizer.GALORE, 0.4, 2.0),
        (Optimizer.MUON, 4.2, 5.0),  # embeddings and head have AdamW's two moments
    ],
)
def test_small_optimizers_have_small_states(
    optimizer: Optimizer, least: float, most: float
) -> None:
    wanted = job("fsdp-full", optimizer=optimizer)
    states = lines(plan(wanted), MemoryPhase.SAVE, Side.GPU)["fsdp.optimizer"].amount
    assert least < states.likely / (7.6e9 / 4) < most


def test_fp8_keeps_fp32_masters_and_may_keep_casts() -> None:
    wanted = job("fsdp-full", precision=Precision.FP8)
    assert wanted.keeps_masters
    step = lines(plan(wanted), MemoryPhase.STEP, Side.GPU)
    assert step["hf_llama_bf16_sdpa"].amount.low < 0.7 * step["hf_llama_bf16_sdpa"].amount.likely


def test_a_base_that_was_quantised_before_is_not_quantised_at_load() -> None:
    wanted = job("ddp", gpus=1, lora=Lora(8), quantized=Quantized.GPTQ)
    assert "qlora.quantizing" not in lines(plan(wanted), MemoryPhase.LOAD, Side.GPU)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parallel": Parallel(expert=2)}, "expert parallelism"),
        ({"parallel": Parallel(tensor=2)}, "tensor parallelism under DeepSpeed"),
        ({"lora": Lora(8), "optimizer": Optimizer.GALORE}, "GaLore over adapters"),
    ],
)
def test_what_is_not_modelled_is_named_and_never_fits(changes: Any, words: str) -> None:
    wanted = job("zero2", **changes)
    held = limits(1000, 10000)
    planner = Planner(table())
    found = planner.plan(wanted, held)
    findings = plan_findings(found, held, judge(planner, found, held), (), table())
    told = [f for f in findings if f.code == "MEM015"]
    assert [f.status for f in told] == [Status.UNKNOWN]
    assert words in told[0].title


def test_an_engine_is_stated_by_its_parts() -> None:
    wanted = asked(method="ppo", rollout="colocate", rollout_memory="0.5", rollout_sleep=2,
                   rollout_gpus=4)  # fmt: skip
    assert wanted.engine == Engine(Rollout.COLOCATE, 0.5, 2, 4)
    assert (wanted.method, wanted.strategy) == (Method.PPO, Strategy.ZERO3)
