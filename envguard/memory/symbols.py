"""The values that a job gives to the symbols of the formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.memory.job import Optimizer, Precision, Quantized, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envguard.matrix.memory_table import MemoryTable
    from envguard.memory.job import Job

_STATES = {
    Optimizer.ADAMW: "adamw_fp32_params",
    Optimizer.ADAMW_FOREACH: "adamw_fp32_params",
    Optimizer.ADAMW_SINGLE: "adamw_fp32_params",
    Optimizer.ADAMW_8BIT: "adamw_8bit_bnb",
    Optimizer.PAGED_ADAMW: "adamw_fp32_params",
    Optimizer.PAGED_ADAMW_8BIT: "adamw_8bit_bnb",
    Optimizer.ADAFACTOR: "adafactor_hf",
    Optimizer.LION: "lion_fp32",
    Optimizer.LION_8BIT: "lion_8bit_bnb",
    Optimizer.SGD: "sgd",
    Optimizer.SGD_MOMENTUM: "sgd_momentum",
    Optimizer.MUON: "muon_torch",
}
# torch's own AdamW in its three forms, and how much each holds while it steps.
_TEMPORARIES = {
    Optimizer.ADAMW_FOREACH: "optimizer.foreach_temporaries",
    Optimizer.ADAMW_SINGLE: "optimizer.single_temporaries",
}
_ADAMW = frozenset(
    {Optimizer.ADAMW, Optimizer.ADAMW_FOREACH, Optimizer.ADAMW_SINGLE, Optimizer.PAGED_ADAMW}
)
# torch keeps these states in the dtype of the weights; 8-bit optimizers have their own.
_HALVED_IN_BF16 = frozenset({Optimizer.LION, Optimizer.SGD_MOMENTUM, Optimizer.MUON})
# save_pretrained's default shard: 50 GB since transformers 5
_SHARD_BYTES = {True: 50_000_000_000, False: 5_000_000_000}


def optimizer_formula(job: Job) -> str:
    """The id of the formula that gives the optimizer's states."""
    if job.precision is Precision.PURE_BF16 and job.optimizer in _ADAMW:
        return "optimizer.adamw_bf16_params"
    return f"optimizer.{_STATES[job.optimizer]}"


def job_symbols(job: Job, table: MemoryTable) -> dict[str, float]:
    """The symbols of a job; bytes, elements and counts as the facts define them."""
    shape = job.shape
    symbols = {
        "P": float(shape.params),
        "Pt": float(job.trainable),
        "Pl": float(shape.largest_module),
        "N": float(job.gpus),
        "L": float(job.ranks_per_node),
        "M": float(job.nodes),
        "F": 1.5,
        "b": float(job.micro_batch),
        "s": float(job.seq_len),
        "h": float(shape.hidden),
        "f": float(shape.ffn),
        "a": float(shape.heads),
        "kv": float(shape.kv_heads),
        "nl": float(shape.layers),
        "V": float(shape.vocab),
        "t": 1.0,
        "shards": float(job.shards),
        "P_quantized": float(max(0, shape.params - shape.kept_params)),
        "P_other": float(shape.kept_params),
        "unit_params": float(max(shape.layer_params, shape.largest_module)),
        "Pg": float(_largest_trained(job)),
        "unit_trained": float(_trained_of_unit(job)),
        "vision_hidden": float(shape.vision.hidden if shape.vision else 0),
        "vision_layers": float(shape.vision.layers if shape.vision else 0),
        "vision_tokens": float(shape.vision.tokens if shape.vision else 0),
    }
    symbols.update(_bytes_per_element(job))
    symbols.update(_zero_symbols(job, symbols))
    symbols.update(_optimizer_bytes(job, table))
    symbols.update(_derived(job, table, symbols))
    return symbols


def _largest_trained(job: Job) -> int:
    """The largest module that has a gradient; of adapters, the pair beside the widest layer."""
    if job.lora is None:
        return job.shape.largest_module
    widest = job.shape.hidden + max(job.shape.hidden, job.shape.ffn)
    return min(job.shape.largest_module, job.lora.rank * widest)


def _trained_of_unit(job: Job) -> int:
    """Parameters of one FSDP unit that have gradients."""
    if job.lora is None:
        return max(job.shape.layer_params, job.shape.largest_module)
    return job.trainable // job.shape.layers


def _bytes_per_element(job: Job) -> dict[str, float]:
    """``e`` weights, ``g`` gradients, ``m`` masters (in FSDP and DDP the weights themselves)."""
    half = job.precision is not Precision.FP32
    weights = 2.0 if half else 4.0
    if job.strategy.is_deepspeed:
        return {"e": weights, "g": weights, "m": 4.0, "grad_bytes": weights}
    # torch's own strategies train fp32 weights, unless everything is bf16 or adapters are small
    full = 2.0 if job.precision is Precision.PURE_BF16 else 4.0
    return {"e": weights, "g": full, "m": full, "grad_bytes": full}


def _zero_symbols(job: Job, symbols: Mapping[str, float]) -> dict[str, float]:
    zero = job.zero
    has_two = job.strategy in {Strategy.ZERO1, Strategy.ZERO2}
    doubles = has_two and bool(zero.overlap_comm)
    may_double = has_two and zero.overlap_comm is not False  # most recipes set it
    # parameters below the threshold: norms and biases, a few vectors of the hidden width a layer
    small = symbols["nl"] * 4 * symbols["h"] if symbols["h"] < zero.persistence else 0.0
    return {
        "reduce_bucket": float(zero.reduce_bucket),
        "allgather_bucket": float(zero.allgather_bucket),
        "prefetch_bucket": float(zero.prefetch_bucket),
        "stage3_max_live_parameters": float(zero.max_live),
        "param_persistence_total": min(small, symbols["P"]),
        "sub_group_size": float(max(1, zero.sub_group)),
        "overlap": 1.0 if doubles else 0.0,
        "overlap_most": 1.0 if may_double else 0.0,
    }


def _optimizer_bytes(job: Job, table: MemoryTable) -> dict[str, float]:
    """Bytes per trained parameter of states (``o``) and of temporaries (``opt_temp``)."""
    one = {"Pt": 1.0}
    states = table.formula(optimizer_formula(job)).evaluate(one).likely
    if job.precision is Precision.PURE_BF16 and job.optimizer in _HALVED_IN_BF16:
        states /= 2
    name = _TEMPORARIES.get(job.optimizer, "optimizer.fused_temporaries")
    return {"o": states, "opt_temp": table.formula(name).evaluate(one).likely}


def base_formula(job: Job) -> str | None:
    """The id of the formula of a quantised base model, or None."""
    match job.quantized:
        case None:
            return None
        case Quantized.NF4:
            return "qlora.base"
        case Quantized.NF4_DOUBLE:
            return "qlora.base_double"
        case Quantized.INT8:
            return "int8.base"


def _derived(job: Job, table: MemoryTable, symbols: Mapping[str, float]) -> dict[str, float]:
    """Symbols that need others: stored bytes of the base model, one rank's state dict."""
    name = base_formula(job)
    base = symbols["e"] * symbols["P"]
    if name is not None:
        base = table.formula(name).evaluate(symbols).likely
    frozen = 0.0 if job.lora is None else base
    per_rank = ((symbols["m"] + symbols["o"]) * symbols["Pt"] + frozen) / symbols["shards"]
    shard = float(_SHARD_BYTES[job.versions.transformers.major >= 5])
    return {
        "base_bytes": base,
        "frozen_bytes": frozen,
        "state_bytes_of_this_rank": per_rank,
        "max_shard_size": shard,
        "live_params": 0.0,
        "n_shards": max(1.0, -(-base // shard)),
    }
