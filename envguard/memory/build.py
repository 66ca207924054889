"""Builds a job out of settings, and says what it had to assume."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from envguard.errors import InputError
from envguard.memory.job import (
    Attention,
    Job,
    Lora,
    Optimizer,
    Option,
    Place,
    Precision,
    Quantized,
    Recompute,
    SaveMode,
    Strategy,
    Versions,
    ZeroSettings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envguard.matrix.memory_table import MemoryTable
    from envguard.memory.settings import Settings
    from envguard.memory.shape import ModelShape

T = TypeVar("T")

_GPUS_OF_A_NODE = 8
_SAVE_WORDS = "checkpoints as transformers' Trainer writes them (--save)"
_RECOMPUTE_WORDS = {
    Recompute.FULL: "activation checkpointing, as recipes for models of this size have it "
    "(--recompute); the high end of the range is without it",
    Recompute.NONE: "no activation checkpointing, as recipes for models of this size have it "
    "(--recompute); the low end of the range is with it",
}
_PRECISION_WORDS = "bf16 with fp32 masters (--dtype)"
_BATCH_WORDS = "1 sample a GPU at a time (--micro-batch)"
_ACCUMULATE_WORDS = (
    "gradients of one pass a step (--accumulate); the high end of the range is with more"
)
_EFFICIENT_WORDS = (
    "cpu_ram_efficient_loading, as in accelerate's example configurations (--config); the high end "
    "of the range is without it"
)
_ONE_GPU_WORDS = "one GPU holds everything (--strategy)"
_LENGTH_WORDS = "2048 tokens a sample (--seq-len)"


def build_job(
    shape: ModelShape,
    settings: Settings,
    versions: Versions,
    table: MemoryTable,
    assumed: list[str],
) -> Job:
    """Build a job.

    Args:
        shape: The model.
        settings: What files and options state.
        versions: Framework releases.
        table: For sizes that transformers derives from the model.
        assumed: Receives a line for everything that is not stated.

    Raises:
        InputError: No strategy is stated, or the GPUs cannot be spread over the nodes.
    """
    strategy = _strategy(settings, assumed)
    gpus, nodes = _layout(settings, assumed)
    quantized = settings.get("quantized", Quantized)
    return Job(
        shape=shape,
        strategy=strategy,
        versions=versions,
        gpus=gpus,
        nodes=nodes,
        precision=_assume(settings, "precision", Precision.BF16, _PRECISION_WORDS, assumed),
        optimizer=settings.get("optimizer", Optimizer) or Optimizer.ADAMW,
        optimizer_on=settings.get("optimizer_on", Place) or Place.GPU,
        params_on=settings.get("params_on", Place) or Place.GPU,
        micro_batch=_assume(settings, "micro_batch", 1, _BATCH_WORDS, assumed),
        seq_len=_assume(settings, "seq_len", 2048, _LENGTH_WORDS, assumed),
        accumulates=_accumulates(settings, assumed),
        recompute=_recompute(settings, shape, table, assumed),
        attention=settings.get("attention", Attention) or Attention.SDPA,
        has_fused_loss=settings.get("fused_loss", bool) or False,
        lora=_lora(settings, quantized, assumed),
        quantized=quantized,
        save=_assume(settings, "save", SaveMode.TRAINER, _SAVE_WORDS, assumed),
        fsdp_sharded=settings.get("fsdp_sharded", bool) or False,
        fsdp_efficient_load=_efficient_load(settings, strategy, assumed),
        resumes=settings.get("resume", bool) or False,
        unstated=frozenset(o for o, n in _SETTINGS.items() if not n & settings.values.keys()),
        zero=_zero(settings, shape, table, assumed),
    )


def _strategy(settings: Settings, assumed: list[str]) -> Strategy:
    strategy = settings.get("strategy", Strategy)
    if strategy is not None:
        return strategy
    if settings.get("gpus", int) == 1:
        assumed.append(_ONE_GPU_WORDS)
        return Strategy.DDP
    known = ", ".join(member.value for member in Strategy)
    raise InputError(
        f"state the strategy: --strategy ({known}) or --config FILE",
        hint="on one GPU, --gpus 1, none is needed",
    )


def _recompute(
    settings: Settings, shape: ModelShape, table: MemoryTable, assumed: list[str]
) -> Recompute:
    """As stated; else as recipes have it: small models are trained without, others with it."""
    smallest = table.formula("usual.recomputed_from").evaluate({}).likely
    usual = Recompute.FULL if shape.params >= smallest else Recompute.NONE
    return _assume(settings, "recompute", usual, _RECOMPUTE_WORDS[usual], assumed)


def _accumulates(settings: Settings, assumed: list[str]) -> bool | None:
    steps = settings.get("accumulate", int)
    if steps is None:
        assumed.append(_ACCUMULATE_WORDS)
        return None
    return steps > 1


def _efficient_load(settings: Settings, strategy: Strategy, assumed: list[str]) -> bool | None:
    stated = settings.get("efficient_load", bool)
    if stated is None and strategy.is_fsdp:
        assumed.append(_EFFICIENT_WORDS)
    return stated


def _lora(settings: Settings, quantized: Quantized | None, assumed: list[str]) -> Lora | None:
    lora = settings.get("lora", Lora)
    if quantized is not None and lora is None:
        assumed.append("adapters of rank 16 on all linear layers (--lora)")
        return Lora(16)
    return lora


def _assume(settings: Settings, name: str, default: T, words: str, assumed: list[str]) -> T:
    value = settings.get(name, type(default))
    if value is None:
        assumed.append(words)
        return default
    return value


def _layout(settings: Settings, assumed: list[str]) -> tuple[int, int]:
    """GPUs and nodes; more than eight GPUs are taken to stand in nodes of eight."""
    gpus, nodes = settings.get("gpus", int), settings.get("nodes", int)
    if gpus is None:
        assumed.append("1 GPU (--gpus)")
        gpus = 1
    if nodes is None:
        nodes = 1
        if gpus > _GPUS_OF_A_NODE and gpus % _GPUS_OF_A_NODE == 0:
            nodes = gpus // _GPUS_OF_A_NODE
            assumed.append(f"{nodes} nodes of 8 GPUs (--nodes)")
    if gpus % nodes:
        raise InputError(f"--gpus {gpus} cannot be spread evenly over --nodes {nodes}")
    return gpus, nodes


def _zero(
    settings: Settings, shape: ModelShape, table: MemoryTable, assumed: list[str]
) -> ZeroSettings:
    """DeepSpeed's settings; ``"auto"`` sizes as transformers fills them in."""
    zero = ZeroSettings()
    changes: dict[str, object] = {}
    for name in ("reduce_bucket", "allgather_bucket", "prefetch_bucket", "max_live",
                 "persistence", "sub_group"):  # fmt: skip
        changes[name] = settings.get(name, int)
    for name in ("overlap_comm", "pins_memory", "gathers_on_save", "zero_init"):
        changes[name] = settings.get(name, bool)
    for name in settings.autos & _AUTO.keys():
        formula = table.formula(f"ds_default.{_AUTO[name]}.hf_auto")
        changes[name] = int(formula.evaluate({"h": float(shape.hidden)}).likely)
    stated = {name: value for name, value in changes.items() if value is not None}
    if settings.get("strategy", Strategy) is Strategy.ZERO3:
        if "gathers_on_save" not in stated:
            if settings.where("strategy").startswith("--"):
                assumed.append("stage3_gather_16bit_weights_on_model_save is true")
            else:  # a file that leaves it out means DeepSpeed's default
                stated["gathers_on_save"] = False
        if "zero_init" not in stated:
            assumed.append("zero.Init is active when the model is built (--no-zero-init)")
    return replace(zero, **stated)  # type: ignore[arg-type]  # names and kinds are the fields'


# Options that recipes set differently -> the settings that decide each.
_SETTINGS: Mapping[Option, frozenset[str]] = {
    Option.RECOMPUTE: frozenset({"recompute"}),
    Option.SEQ_LEN: frozenset({"seq_len"}),
    Option.PRECISION: frozenset({"precision"}),
    Option.SAVE: frozenset({"save", "fsdp_sharded"}),
}
# Settings that may be "auto" -> DeepSpeed's name of the field.
_AUTO: Mapping[str, str] = {
    "reduce_bucket": "reduce_bucket_size",
    "prefetch_bucket": "stage3_prefetch_bucket_size",
    "persistence": "stage3_param_persistence_threshold",
}
