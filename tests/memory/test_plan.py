"""Golden figures of plans, worked out by hand from the formulas' sources."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packaging.version import Version

from envguard.memory.formulas import MemoryPart, job_symbols
from envguard.memory.job import (
    JobOption,
    Lora,
    Method,
    Optimizer,
    Placement,
    Precision,
    Quantized,
    Recompute,
    Reference,
    SaveMode,
    Strategy,
    ZeroSettings,
)
from envguard.memory.plan import GIB, MemoryPhase, Side
from envguard.memory.public_models import guess_shape
from envguard.memory.verdict import find_overruns
from tests.memory.jobs import VERSIONS, job, likely, limits, lines, plan, table


def test_zero2_keeps_whole_weights_and_a_share_of_the_rest() -> None:
    wanted = job("zero2", seq_len=1024, optimizer=Optimizer.ADAMW_FUSED)
    step = lines(plan(wanted), MemoryPhase.STEP, Side.GPU)
    assert step["zero2.weights"].amount.likely == 15.2e9
    assert step["zero12.master"].amount.likely == 7.6e9
    assert step["zero12.optimizer"].amount.likely == 15.2e9
    # at the update: fp32 gradients beside the 16-bit ones, of a quarter of the parameters
    assert step["zero12.step_gradients"].amount.likely == 6 * 1.9e9


def test_zero2_reduces_gradients_before_activations_are_gone() -> None:
    found = plan(job("zero2", accumulates=True, seq_len=8192))
    assert likely(found, MemoryPhase.STEP, Side.GPU, "zero2.gradients") == 3.8e9


def test_zero3_shares_everything_and_gathers_what_is_at_work() -> None:
    found = plan(job("zero3"))
    assert likely(found, MemoryPhase.STEP, Side.GPU, "zero3.weights") == 3.8e9
    assert likely(found, MemoryPhase.STEP, Side.GPU, "zero3.optimizer") == 15.2e9
    gathered = likely(found, MemoryPhase.STEP, Side.GPU, "zero3.live")
    # embedding and head live, 50 million fetched ahead, two bytes each
    assert gathered == pytest.approx(4 * 152064 * 3584 + 0.1e9, rel=0.001)


def test_fsdp_shards_fp32_weights() -> None:
    found = plan(job("fsdp-full"))
    assert likely(found, MemoryPhase.SAVE, Side.GPU, "fsdp.weights") == 7.6e9
    assert likely(found, MemoryPhase.SAVE, Side.GPU, "fsdp.optimizer") == 15.2e9


def test_hybrid_sharding_stays_inside_a_node() -> None:
    found = plan(job("fsdp-hybrid", gpus=16, nodes=4))
    assert likely(found, MemoryPhase.SAVE, Side.GPU, "fsdp.weights") == 7.6e9


def test_ddp_in_pure_bf16_needs_eight_bytes_a_parameter() -> None:
    found = plan(job("ddp", gpus=1, precision=Precision.PURE_BF16, accumulates=True))
    step = lines(found, MemoryPhase.STEP, Side.GPU)
    total = sum(step[n].amount.likely for n in ("ddp.weights", "ddp.gradients", "ddp.optimizer"))
    assert total == 8 * 7.6e9


def test_eight_bit_adam_and_adafactor_shrink_the_states() -> None:
    small = plan(job("zero2", optimizer=Optimizer.ADAMW_8BIT))
    assert likely(small, MemoryPhase.STEP, Side.GPU, "zero12.optimizer") == pytest.approx(
        2.03 * 1.9e9
    )
    tiny = plan(job("zero2", optimizer=Optimizer.ADAFACTOR))
    assert likely(tiny, MemoryPhase.STEP, Side.GPU, "zero12.optimizer") == pytest.approx(
        0.01 * 1.9e9
    )


def test_a_paged_optimizer_may_leave_the_gpu() -> None:
    found = plan(job("fsdp-full", optimizer=Optimizer.PAGED_ADAMW_8BIT))
    states = lines(found, MemoryPhase.SAVE, Side.GPU)["fsdp.optimizer"].amount
    assert states.low == 0
    assert states.likely == pytest.approx(2.03 * 1.9e9)
    host = lines(found, MemoryPhase.STEP, Side.HOST)["optimizer.paged_on_host"].amount
    assert host.likely == 0
    assert host.high == pytest.approx(4 * 2.03 * 1.9e9)


def test_activations_are_measured_ones() -> None:
    # Llama-2-7B widths: f/h 2.6875, all heads keep keys: 20 + 4 + 21.5 a token and width
    found = plan(job("zero3", params=6_738_415_616, seq_len=2048))
    line = likely(found, MemoryPhase.STEP, Side.GPU, "hf_llama_bf16_sdpa")
    assert line == pytest.approx(45.5 * 2048 * 4096 * 32)
    logits = likely(found, MemoryPhase.STEP, Side.GPU, "logits_16bit_model_hf_loss")
    assert logits == 14 * 2048 * 32000


def test_checkpointing_keeps_the_inputs_of_layers_and_one_layer() -> None:
    wanted = job("zero3", params=6_738_415_616, seq_len=8192, recompute=Recompute.FULL,
                 optimizer=Optimizer.ADAMW_FUSED)  # fmt: skip
    found = plan(wanted)
    assert likely(found, MemoryPhase.STEP, Side.GPU, "full_recompute") == 2 * 8192 * 4096 * 32
    layer = likely(found, MemoryPhase.STEP, Side.GPU, "hf_llama_bf16_sdpa")
    assert layer == pytest.approx(45.5 * 8192 * 4096)


def test_checkpointing_that_is_not_stated_widens_the_range_downwards() -> None:
    wanted = job("zero3", unstated=frozenset({JobOption.RECOMPUTE}))
    line = lines(plan(wanted), MemoryPhase.STEP, Side.GPU)["hf_llama_bf16_sdpa"].amount
    assert line.low < 0.2 * line.likely


def test_checkpointing_that_is_assumed_widens_the_range_upwards() -> None:
    # 36 layers' activations at most, whatever the layers' inputs are
    wanted = job("zero3", params=8_190_735_360, recompute=Recompute.FULL, seq_len=16384,
                 unstated=frozenset({JobOption.RECOMPUTE}))  # fmt: skip
    found = lines(plan(wanted), MemoryPhase.STEP, Side.GPU)
    most = sum(found[n].amount.high for n in ("full_recompute", "hf_llama_bf16_sdpa"))
    # 20 + 1 + 24 bytes a token and width; the other models of this size keep less
    assert most == pytest.approx(45 * 16384 * 4096 * 36)


@pytest.mark.parametrize(
    ("overlap", "likely", "high"), [(None, 1e9, 3e9), (False, 1e9, 2e9), (True, 2e9, 3e9)]
)
def test_overlapping_reductions_double_the_bucket(
    overlap: bool | None, likely: float, high: float
) -> None:
    wanted = job("zero2", seq_len=8192, zero=ZeroSettings(overlap_comm=overlap))
    found = lines(plan(wanted), MemoryPhase.STEP, Side.GPU)["zero_buckets"].amount
    assert (found.likely, found.high) == (likely, high)


def test_frozen_weights_have_no_gradients() -> None:
    found = job_symbols(job("zero3", lora=Lora(16)), table())
    # the adapters beside the widest layer, of Qwen2.5-7B's widths; not the embedding
    assert found["Pg"] == 16 * (3584 + 18944)
    assert found["unit_trained"] == pytest.approx(found["Pt"] / 28, abs=1)
    assert job_symbols(job("zero3"), table())["Pg"] == 152064 * 3584


def test_frozen_weights_are_offloaded_once() -> None:
    wanted = job(
        "zero3", gpus=1, optimizer_on=Placement.CPU, params_on=Placement.CPU, lora=Lora(16)
    )
    found = lines(plan(wanted), MemoryPhase.STEP, Side.HOST)
    frozen = found["zero3_offload.frozen"].amount
    assert (frozen.low, frozen.high) == (15.2e9, 30.4e9)
    assert found["zero3_offload.weights"].amount.high < 0.2e9
    pageable = replace(wanted, zero=ZeroSettings(pins_memory=False))
    assert (
        likely(plan(pageable), MemoryPhase.STEP, Side.HOST, "zero3_offload.frozen_pageable")
        == 15.2e9
    )


def test_layers_without_a_gate_count_two_tensors_of_the_mlp_width() -> None:
    found = plan(job("zero3", params=2_775_208_960))  # Pythia-2.8B: an MLP of four widths
    line = likely(found, MemoryPhase.STEP, Side.GPU, "gpt_layer.sdpa")
    assert line == 34 * 2048 * 2560 * 32


def test_models_with_an_encoder_stand_in_for_their_own_size_only() -> None:
    assert guess_shape(2_850_000_000, table()).name == "widths as in flan-t5-xl"
    assert guess_shape(2_900_000_000, table()).name == "widths as in Phi-2"


def test_lora_trains_adapters_over_frozen_weights() -> None:
    found = plan(job("zero2", lora=Lora(16)))
    assert likely(found, MemoryPhase.STEP, Side.GPU, "zero2.weights") == pytest.approx(
        15.2e9, rel=0.01
    )
    assert likely(found, MemoryPhase.STEP, Side.GPU, "zero12.optimizer") < 0.1e9


def test_qlora_stores_half_a_byte_and_scales() -> None:
    wanted = job("ddp", gpus=1, lora=Lora(16), quantized=Quantized.NF4, params=6_738_415_616)
    weights = likely(plan(wanted), MemoryPhase.STEP, Side.GPU, "ddp.weights")
    kept = 2 * 32000 * 4096 + 65 * 4096  # embedding, head and norms stay in 16 bits
    adapters = 4 * 39_976_960
    assert weights == pytest.approx(0.5625 * (6_738_415_616 - kept) + 2 * kept + adapters)


@pytest.mark.parametrize("strategy", ["zero1", "zero2"])
def test_every_rank_clones_the_weights_at_the_trainers_save(strategy: str) -> None:
    found = plan(job(strategy))
    copies = likely(found, MemoryPhase.SAVE, Side.HOST, "hf_trainer_deepspeed_zero012.node")
    assert copies == 4 * 15.2e9
    assert found.peak(Side.HOST).phase is MemoryPhase.SAVE


def test_zero3_gathers_once_at_the_trainers_save() -> None:
    found = plan(job("zero3", params=13e9))
    copies = likely(found, MemoryPhase.SAVE, Side.HOST, "hf_trainer_deepspeed_zero3_gather.node")
    assert copies == 26e9


def test_the_trainers_save_is_followed_by_deepspeeds_own() -> None:
    # 15.2e9 are gathered first; then each of four ranks copies a storage of a billion fp32
    found = plan(job("zero3"))
    assert (
        likely(found, MemoryPhase.SAVE, Side.HOST, "deepspeed_save_checkpoint_zero3.node") == 16e9
    )


def test_zero3_without_gathering_copies_one_storage_a_rank() -> None:
    found = plan(job("zero3", zero=ZeroSettings(gathers_on_save=False)))
    copies = likely(found, MemoryPhase.SAVE, Side.HOST, "hf_trainer_deepspeed_zero3_no_gather.node")
    assert copies == 4 * 4e9  # a sub-group of a billion, not the 1.9 billion of the rank


def test_only_rank_0_copies_at_a_16_bit_save() -> None:
    found = plan(job("zero2", save=SaveMode.HALF))
    assert (
        likely(found, MemoryPhase.SAVE, Side.HOST, "deepspeed_save_16bit_model_zero12.node")
        == 15.2e9
    )


def test_adapters_do_not_spare_the_base_model_under_zero2() -> None:
    found = plan(job("zero2", lora=Lora(16)))
    copies = likely(found, MemoryPhase.SAVE, Side.HOST, "hf_trainer_deepspeed_zero012_peft.node")
    assert copies == pytest.approx(4 * 15.2e9, rel=0.01)
    spared = plan(job("zero3", lora=Lora(16))).phase(MemoryPhase.SAVE).host.lines
    copied = [line.amount.likely for line in spared if line.part is MemoryPart.CHECKPOINT]
    assert copied
    assert sum(copied) < 0.2e9


def test_old_safetensors_copy_once_more_on_rank_0() -> None:
    old = replace(VERSIONS, safetensors=Version("0.7.0"))
    found = plan(job("zero2", versions=old))
    extra = likely(found, MemoryPhase.SAVE, Side.HOST, "hf_trainer_deepspeed_zero012.rank0_extra")
    assert extra == 15.2e9


def test_a_full_fsdp_save_gathers_the_optimizer_on_rank_0() -> None:
    found = plan(job("fsdp-full"))
    assert likely(found, MemoryPhase.SAVE, Side.HOST, "hf_fsdp_full_state_dict.node") == 8 * 7.6e9


def test_an_asynchronous_save_keeps_a_copy_of_every_shard() -> None:
    found = plan(job("fsdp-full", save=SaveMode.DCP_ASYNC))
    assert likely(found, MemoryPhase.SAVE, Side.HOST, "dcp_async_save_default.node") == 12 * 7.6e9


def test_a_ddp_save_is_bound_by_the_shard_size_of_transformers() -> None:
    new = plan(job("ddp"))
    assert likely(new, MemoryPhase.SAVE, Side.HOST, "hf_trainer_ddp_single.node") == 30.4e9
    old = plan(job("ddp", versions=replace(VERSIONS, transformers=Version("4.46.3"))))
    assert likely(old, MemoryPhase.SAVE, Side.HOST, "hf_trainer_ddp_single.node") == 5e9


def test_transformers_4_loads_a_copy_in_every_rank() -> None:
    new = plan(job("zero2"))
    assert "from_pretrained_v4_default.peak" not in lines(new, MemoryPhase.LOAD, Side.HOST)
    old = plan(job("zero2", versions=replace(VERSIONS, transformers=Version("4.46.3"))))
    assert (
        likely(old, MemoryPhase.LOAD, Side.HOST, "from_pretrained_v4_default.peak") == 4 * 6 * 7.6e9
    )


def test_old_deepspeed_flattens_weights_on_the_host_of_every_rank() -> None:
    name = "zero12_init.flatten_on_host"
    assert name not in lines(plan(job("zero2")), MemoryPhase.INIT, Side.HOST)
    old = job("zero2", versions=replace(VERSIONS, deepspeed=Version("0.18.6")))
    assert likely(plan(old), MemoryPhase.INIT, Side.HOST, name) == 4 * 4 * 7.6e9
    # and a new one does so where the GPU has no room for a second copy
    assert name in lines(plan(job("zero2"), gpu=24), MemoryPhase.INIT, Side.HOST)


def test_fsdp2_turns_weights_into_fp32_on_the_host_of_every_rank() -> None:
    found = plan(job("fsdp-full", fsdp_efficient_load=False))
    assert likely(found, MemoryPhase.INIT, Side.HOST, "fsdp2_upcast_on_host") == 4 * 4 * 7.6e9
    once = plan(job("fsdp-full", fsdp_efficient_load=True))
    line = lines(once, MemoryPhase.INIT, Side.HOST)["fsdp2_upcast_on_rank0"].amount
    assert (line.low, line.likely, line.high) == (4 * 7.6e9,) * 3
    either = lines(plan(job("fsdp-full")), MemoryPhase.INIT, Side.HOST)[
        "fsdp2_upcast_on_rank0"
    ].amount
    assert (either.likely, either.high) == (4 * 7.6e9, 4 * 4 * 7.6e9)


def test_pinned_offload_buffers_are_rounded_up() -> None:
    wanted = job("zero2", gpus=1, params=6.05e9, optimizer_on=Placement.CPU)
    found = plan(wanted)
    master = lines(found, MemoryPhase.STEP, Side.HOST)["zero12_offload.master"].amount
    assert master.low == 24.2e9
    assert master.likely == 2**35
    pageable = plan(job("zero2", gpus=1, params=6.05e9, optimizer_on=Placement.CPU,
                        zero=ZeroSettings(pins_memory=False)))  # fmt: skip
    assert likely(pageable, MemoryPhase.STEP, Side.HOST, "zero12_offload.master") == 24.2e9


def test_nvme_leaves_only_buffers_on_the_host() -> None:
    wanted = job("zero3", optimizer_on=Placement.NVME, params_on=Placement.NVME)
    host = plan(wanted).phase(MemoryPhase.STEP).host.total.likely
    assert host < 120e9
    assert "zero3_offload.optimizer" not in lines(plan(wanted), MemoryPhase.STEP, Side.HOST)


def test_a_resume_reads_every_shard_at_once() -> None:
    found = plan(job("zero3"))
    assert likely(found, MemoryPhase.RESUME, Side.HOST, "resume.optimizer_shard") == 12 * 7.6e9
    assert found.peak(Side.HOST).phase is MemoryPhase.SAVE  # another run's, unless it is stated
    assert plan(job("zero3", resumes=True)).peak(Side.HOST).phase is MemoryPhase.RESUME


def test_file_cache_is_shown_and_not_counted() -> None:
    stack = plan(job("zero2")).phase(MemoryPhase.LOAD).host
    cache = [line for line in stack.lines if line.is_reclaimable]
    assert [line.amount.likely for line in cache] == [15.2e9]
    assert stack.total.likely == 4 * 2e9


def test_accumulated_gradients_are_there_with_all_activations() -> None:
    once = plan(job("fsdp-full", accumulates=False, seq_len=8192))
    often = plan(job("fsdp-full", accumulates=True, seq_len=8192))
    more = (
        often.phase(MemoryPhase.STEP).gpu.total.likely
        - once.phase(MemoryPhase.STEP).gpu.total.likely
    )
    assert more / GIB == pytest.approx(4 * 7.6e9 / 4 / GIB * 1.07, rel=0.01)  # and fragmentation


def test_the_background_case_breaks_at_the_save_only() -> None:
    wide = limits(80, 64)
    zero3 = plan(job("zero3"), 80, 64)
    assert find_overruns(zero3, wide) == ()
    zero2 = find_overruns(plan(job("zero2"), 80, 64), wide)
    assert [(b.side, b.phase, b.cause) for b in zero2] == [
        (Side.HOST, MemoryPhase.SAVE, "host-oom-save")
    ]
    assert find_overruns(plan(job("zero2"), 80, 128), limits(80, 128)) == ()
    half = plan(job("zero2", save=SaveMode.HALF), 80, 64)
    assert find_overruns(half, wide) == ()


@pytest.mark.parametrize("strategy", Strategy)
def test_every_line_names_a_formula_of_the_table(strategy: Strategy) -> None:
    for phase in plan(job(strategy.value)).phases:
        for line in (*phase.gpu.lines, *phase.host.lines):
            for name in line.formula.replace(" + ", " x ").split(" x "):
                assert table().formula(name).id == name


def test_a_lora_job_on_one_gpu_writes_its_adapters_only() -> None:
    wanted = job("ddp", gpus=1, lora=Lora(16))
    trainable = job_symbols(wanted, table())["Pt"]
    found = lines(plan(wanted), MemoryPhase.SAVE, Side.HOST)
    assert found["lora_save.trainer"].amount.likely == 4 * trainable
    assert "hf_trainer_ddp_single.node" not in found


def test_a_qlora_job_of_seven_billion_fits_a_small_notebook() -> None:
    wanted = job("ddp", gpus=1, params=6_738_415_616, lora=Lora(16), quantized=Quantized.NF4,
                 recompute=Recompute.FULL, seq_len=512)  # fmt: skip
    found = plan(wanted, gpu=15, host=12.7)
    assert not find_overruns(found, limits(15, 12.7))


def test_a_preference_job_passes_two_sequences_and_keeps_a_reference() -> None:
    plain, pairs = job("zero2", seq_len=1024), job("zero2", seq_len=1024, method=Method.DPO)
    copied = lines(plan(replace(pairs, reference=Reference.COPY)), MemoryPhase.SAVE, Side.GPU)
    assert copied["reference.whole"].amount.likely == 15.2e9
    shared = lines(plan(replace(pairs, reference=Reference.ADAPTER)), MemoryPhase.SAVE, Side.GPU)
    assert "reference.whole" not in shared
    assert pairs.tokens == 2 * plain.tokens


def test_sharding_strategies_shard_the_reference() -> None:
    wanted = job("zero3", method=Method.DPO, reference=Reference.COPY)
    found = lines(plan(wanted), MemoryPhase.SAVE, Side.GPU)
    assert found["reference.sharded"].amount.likely == 15.2e9 / 4


def test_ppo_trains_a_value_model_and_asks_a_reward_model() -> None:
    wanted = job("zero2", method=Method.PPO, reference=Reference.ADAPTER, lora=Lora(8))
    found = lines(plan(wanted), MemoryPhase.SAVE, Side.GPU)
    assert found["zero2.weights x 2 models"].amount.likely == pytest.approx(2 * 15.2e9, rel=0.01)
    assert found["reward.whole"].amount.likely == 15.2e9


def test_a_reward_model_has_no_logits() -> None:
    wanted = job("zero3", method=Method.REWARD, seq_len=8192)
    found = lines(plan(wanted), MemoryPhase.STEP, Side.GPU)
    assert found["logits_scores"].amount.likely < 1e6


@pytest.mark.parametrize(
    ("optimizer", "precision", "a_parameter"),
    [
        (Optimizer.ADAMW_FUSED, Precision.PURE_BF16, 0),
        (Optimizer.ADAMW_FOREACH, Precision.PURE_BF16, 2),  # five copies of bf16 weights in all
        (Optimizer.ADAMW_FOREACH, Precision.BF16, 4),
        (Optimizer.ADAMW, Precision.BF16, 4),
    ],
)
def test_temporaries_have_the_dtype_of_the_states(
    optimizer: Optimizer, precision: Precision, a_parameter: float
) -> None:
    wanted = job("fsdp-full", optimizer=optimizer, precision=precision)
    assert job_symbols(wanted, table())["opt_temp"] == a_parameter


def test_before_torch_2_1_the_foreach_form_kept_two_lists() -> None:
    old = replace(VERSIONS, torch=Version("2.0.1"))
    wanted = job("zero2", optimizer=Optimizer.ADAMW_FOREACH, versions=old)
    assert job_symbols(wanted, table())["opt_temp"] == 8


def test_selective_checkpointing_keeps_half_of_the_products() -> None:
    wanted = job("fsdp-full", params=8_030_261_248, seq_len=8192, recompute=Recompute.SELECTIVE,
                 optimizer=Optimizer.ADAMW_FUSED)  # fmt: skip
    found = lines(plan(wanted), MemoryPhase.STEP, Side.GPU)["selective_op"].amount
    # 8 + 2 * 8 / 32 + 2 * 3.5 bytes a token and width
    assert found.likely == pytest.approx(15.5 * 8192 * 4096 * 32)
    assert found.high > 2 * found.likely


def test_near_the_limit_the_allocator_gives_back_what_it_keeps() -> None:
    wanted = job("zero3", gpus=8, params=32_763_876_352, recompute=Recompute.FULL,
                 optimizer=Optimizer.ADAMW_FUSED)  # fmt: skip
    wide = lines(plan(wanted), MemoryPhase.STEP, Side.GPU)["fragmentation"].amount
    tight = lines(plan(wanted, gpu=70), MemoryPhase.STEP, Side.GPU)["fragmentation"].amount
    assert tight.likely == pytest.approx(wide.likely / 2)
    assert tight.high == pytest.approx(wide.high)
    expandable = plan(replace(wanted, is_expandable=True), gpu=70)
    least = lines(expandable, MemoryPhase.STEP, Side.GPU)["fragmentation.expandable"].amount
    assert least.likely < tight.likely / 2
