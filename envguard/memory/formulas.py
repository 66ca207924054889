"""Lines of a plan, and the values that a job gives to the symbols of formulas."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.matrix.memory import Amount
from envguard.memory.job import (
    Optimizer,
    Precision,
    Quantized,
    Strategy,
)
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from envguard.matrix.memory import Formula, MemoryTable
    from envguard.memory.job import Job


_STATES = {
    Optimizer.ADAMW: "adamw_fp32_params",
    Optimizer.ADAMW_FUSED: "adamw_fp32_params",
    Optimizer.ADAMW_FOREACH: "adamw_fp32_params",
    Optimizer.ADAMW_SINGLE: "adamw_fp32_params",
    Optimizer.ADAMW_8BIT: "adamw_8bit_bnb",
    Optimizer.PAGED_ADAMW: "adamw_fp32_params",
    Optimizer.PAGED_ADAMW_8BIT: "adamw_8bit_bnb",
    Optimizer.ADAFACTOR: "adafactor_hf",
    Optimizer.LION: "lion_fp32",
    Optimizer.LION_8BIT: "lion_8bit_bnb",
    Optimizer.PAGED_LION_8BIT: "lion_8bit_bnb",
    Optimizer.ADAMW_4BIT: "adamw_4bit",
    Optimizer.GALORE: "galore_adamw",
    Optimizer.SGD: "sgd",
    Optimizer.SGD_MOMENTUM: "sgd_momentum",
    Optimizer.MUON: "muon_torch",
}
_ADAMW = frozenset(
    {
        Optimizer.ADAMW,
        Optimizer.ADAMW_FUSED,
        Optimizer.ADAMW_FOREACH,
        Optimizer.ADAMW_SINGLE,
        Optimizer.PAGED_ADAMW,
    }
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


def job_symbols(job: Job, table: MemoryTable, gpu_total: float = 0.0) -> dict[str, float]:
    """The symbols of a job; bytes, elements and counts as the facts define them.

    Args:
        job: The job.
        table: The formulas.
        gpu_total: Bytes of one GPU; 0 is not known.
    """
    shape = job.shape
    symbols = {
        "P": float(shape.params),
        "Pt": float(job.trainable),
        "Pl": float(shape.largest_module),
        "N": float(job.gpus),
        "L": float(job.ranks_per_node),
        "M": float(job.nodes),
        "F": 1.5,
        "b": float(job.micro_batch * job.method.sequences),
        "s": job.seq_len / job.parallel.context,
        "h": float(shape.hidden),
        "f": float(shape.ffn),
        "a": float(shape.heads),
        "kv": float(shape.kv_heads),
        "nl": float(shape.layers),
        "V": float(shape.vocab),
        "t": float(job.parallel.tensor),
        "gpu_total": gpu_total,
        "rollout_share": job.engine.share,
        "rollout_ranks": float(job.engine.ranks),
        "offloaded_activations": 0.0,
        "outside_share": min(1.0, shape.outside / shape.params) if job.lora is None else 0.0,
        "shards": float(job.shards),
        "P_quantized": float(max(0, shape.params - shape.kept_params)),
        "P_other": float(shape.kept_params),
        "P_quantizable": float(max(0, shape.params - shape.kept_params)),
        "P_beside": float(job.beside),
        "Pm": float(shape.largest_matrix),
        "Pg": float(_largest_trained(job)),
        "unit_trained": float(_trained_of_unit(job)),
        "vision_hidden": float(shape.vision.hidden if shape.vision else 0),
        "vision_layers": float(shape.vision.layers if shape.vision else 0),
        "vision_tokens": float(shape.vision.tokens if shape.vision else 0),
    }
    symbols.update(_bytes_per_element(job))
    symbols.update(_adapter_symbols(job))
    symbols.update(_zero_symbols(job, symbols))
    symbols.update(_optimizer_bytes(job, table, symbols))
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


def _adapter_symbols(job: Job) -> dict[str, float]:
    """Widths, summed over the adapted linear layers of one decoder layer."""
    shape, lora = job.shape, job.lora
    h, f, narrow = (
        float(shape.hidden),
        float(shape.ffn),
        shape.hidden * shape.kv_heads / shape.heads,
    )
    covers_all = lora is not None and lora.covers_all
    return {
        "lora_rank": float(lora.rank if lora else 0),
        "lora_modules": 7.0 if covers_all else 2.0,
        "lora_in": 6 * h + f if covers_all else 2 * h,
        "lora_shared": 2 * h + f if covers_all else h,
        "lora_out": 3 * h + 2 * narrow + 2 * f if covers_all else h + narrow,
    }


def _optimizer_bytes(
    job: Job, table: MemoryTable, symbols: Mapping[str, float]
) -> dict[str, float]:
    """Bytes per trained parameter of states (``o``) and of temporaries (``opt_temp``)."""
    one = {**symbols, "Pt": 1.0}
    states = table.formula(optimizer_formula(job)).evaluate(one).likely
    if job.precision is Precision.PURE_BF16 and job.optimizer in _HALVED_IN_BF16:
        states /= 2
    width = 2.0 if job.precision is Precision.PURE_BF16 else 4.0
    known = {**symbols, "w": width}
    held = [
        table.formula(name).evaluate(known).likely / symbols["Pt"] for name in _temporaries(job)
    ]
    least, likely, most = held if len(held) == 3 else held * 3
    return {
        "w": width,
        "o": states,
        "opt_temp_least": least,
        "opt_temp": likely,
        "opt_temp_most": most,
    }


_FOREACH_IN_PLACE = Version("2.1")


def _temporaries(job: Job) -> tuple[str, ...]:
    """The formula of what an optimizer holds while it steps, or of its range."""
    fused, foreach = "optimizer.fused_temporaries", "optimizer.foreach_temporaries"
    if job.versions.torch < _FOREACH_IN_PLACE:
        foreach = "optimizer.foreach_before_2_1"
    # DeepSpeed steps one flat tensor, torch's own strategies one parameter after another
    single = "optimizer.single_temporaries" if job.strategy.is_deepspeed else _LOOP
    match job.optimizer:
        case Optimizer.ADAMW:  # torch's default on a GPU; frameworks of today ask for the fused one
            return fused, foreach, single if job.strategy.is_deepspeed else foreach
        case Optimizer.ADAMW_FOREACH:
            return (foreach,)
        case Optimizer.ADAMW_SINGLE:
            return (single,)
        case _:
            return (fused,)


_LOOP = "optimizer.loop_temporaries"


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
        case Quantized.GPTQ:
            return "gptq.base"


# Bytes of the scales of one quantised weight: fp32 for 64 of them, or 8 bits and their own scales.
_SCALES = {
    Quantized.NF4: 4 / 64,
    Quantized.NF4_DOUBLE: 1 / 64 + 4 / 64 / 256,
    Quantized.INT8: 0.0,
    Quantized.GPTQ: 0.0,
}


def _derived(job: Job, table: MemoryTable, symbols: Mapping[str, float]) -> dict[str, float]:
    """Symbols that need others: stored bytes of the base model, one rank's state dict."""
    base = _stored(job, table, symbols, job.shape.params, job.shape.kept_params)
    frozen = 0.0 if job.lora is None else base
    per_rank = ((symbols["m"] + symbols["o"]) * symbols["Pt"] + frozen) / symbols["shards"]
    shard = float(_SHARD_BYTES[job.versions.transformers.major >= 5])
    outside = min(job.shape.outside, job.shape.params)
    return {
        "base_bytes": base,
        "frozen_bytes": frozen,
        "layer_bytes": _stored(job, table, symbols, job.shape.layer_params, 0),
        "outside_bytes": symbols["e"] * outside,
        "reference_bytes": _reference_bytes(job, symbols, base),
        "quant_scale": _SCALES[job.quantized] if job.quantized else 0.0,
        "state_bytes_of_this_rank": per_rank,
        "max_shard_size": shard,
        "live_params": 0.0,
        "n_shards": max(1.0, -(-base // shard)),
    }


def _stored(
    job: Job, table: MemoryTable, symbols: Mapping[str, float], params: int, kept: int
) -> float:
    """Bytes of weights at rest, of which some are never quantised."""
    name = base_formula(job)
    if name is None:
        return symbols["e"] * params
    known = {**symbols, "P_quantized": float(max(0, params - kept)), "P_other": float(kept)}
    return table.formula(name).evaluate(known).likely


def _reference_bytes(job: Job, symbols: Mapping[str, float], base: float) -> float:
    """A copy of the model in the dtype that the trained one was loaded in."""
    is_fp32 = job.strategy is Strategy.DDP and job.quantized is None and job.lora is None
    return symbols["m"] * job.shape.params if is_fp32 else base


NOTHING = Amount.of(0.0)


class MemoryPart(Enum):
    """What a line is about; the order is the order of the stack."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    MASTER = "master weights"
    OPTIMIZER = "optimizer states"
    REFERENCE = "models beside"
    ROLLOUT = "rollout engine"
    GATHERED = "gathered weights"
    BUCKETS = "buckets"
    ACTIVATIONS = "activations"
    LOGITS = "logits and loss"
    TRANSIENT = "transient copies"
    OFFLOADED = "offloaded states"
    LOADING = "loading"
    CHECKPOINT = "checkpoint copies"
    CONTEXT = "CUDA context"
    NCCL = "NCCL"
    FRAGMENTATION = "fragmentation"
    BASELINE = "processes"
    FILE_CACHE = "file cache"


_NOT_OF_THE_MODEL = frozenset({MemoryPart.CONTEXT, MemoryPart.NCCL, MemoryPart.BASELINE})


@dataclass(frozen=True, slots=True)
class Line:
    """One amount of memory.

    Args:
        part: What it is about.
        formula: Id of the formula; several are joined by `` x ``.
        amount: Bytes, for one GPU or for one node.
        what: For people.
        is_firm: Its evidence is good enough to fail a plan.
        is_reclaimable: The kernel takes it back before anything is killed: not counted.
    """

    part: MemoryPart
    formula: str
    amount: Amount
    what: str
    is_firm: bool = True
    is_reclaimable: bool = False

    def times(self, factor: float) -> Line:
        """The same line for several ranks."""
        return replace(self, amount=self.amount.times(factor))


@dataclass(frozen=True, slots=True)
class Stack:
    """Lines that are alive together."""

    lines: tuple[Line, ...] = ()

    @property
    def total(self) -> Amount:
        """Their sum, what is reclaimable left out."""
        return sum((n.amount for n in self.lines if not n.is_reclaimable), NOTHING)

    @property
    def firm(self) -> float:
        """The likely sum, where weak evidence counts with its lower end only."""
        counted = (n for n in self.lines if not n.is_reclaimable)
        return sum(n.amount.likely if n.is_firm else n.amount.low for n in counted)

    def plus(self, *lines: Line) -> Stack:
        """The stack with further lines on top."""
        return Stack((*self.lines, *lines))


class Book:
    """Turns formulas into lines.

    Args:
        table: The formulas.
        symbols: The values of a job.
        pins_memory: Page-locked blocks are rounded up.
        spread: By what factor the model's parameters may be off either way.
    """

    __slots__ = ("pins_memory", "spread", "symbols", "table")

    def __init__(
        self,
        table: MemoryTable,
        symbols: Mapping[str, float],
        *,
        pins_memory: bool = True,
        spread: float = 1.0,
    ) -> None:
        self.table = table
        self.symbols = symbols
        self.pins_memory = pins_memory
        self.spread = spread

    def line(self, part: MemoryPart, formula_id: str, *, per: float = 1.0) -> Line:
        """The line of one formula.

        Args:
            part: What it is about.
            formula_id: Id of the formula.
            per: How many ranks it stands for.
        """
        formula = self.table.formula(formula_id)
        amount = formula.evaluate(self.symbols, is_pinned=self.pins_memory).times(per)
        if part not in _NOT_OF_THE_MODEL:
            amount = amount.widened(1 / self.spread, self.spread)
        return Line(part, formula.id, amount, formula.what, is_firm=is_firm(formula))

    def moments(self, formula_id: str) -> frozenset[str]:
        """When a formula is alive within a step; always where it does not say."""
        first = formula_id.split(" ")[0]
        return frozenset((self.table.formula(first).moment or "all").split())


def is_firm(formula: Formula) -> bool:
    """Whether a formula's evidence may fail a plan."""
    return formula.provenance.is_firm


def largest(stacks: Iterable[Stack]) -> Stack:
    """The stack with the largest likely total."""
    return max(stacks, key=lambda stack: stack.total.likely)
