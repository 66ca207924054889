"""Lines of a plan, their formulas, and the values that a job gives to the symbols."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from envguard.matrix.memory import Amount
from envguard.memory.job import (
    Attention,
    JobOption,
    Optimizer,
    Precision,
    Quantized,
    Recompute,
    Strategy,
)
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from envguard.matrix.memory import Formula, MemoryTable
    from envguard.memory.job import Job


# Widths taken from another model of the same size differ by about this much among public models.
_GUESS_BELOW, _GUESS_ABOVE = 0.75, 1.33


def activation_lines(job: Job, book: Book) -> tuple[Line, ...]:
    """What one GPU holds at the peak of the backward pass, states apart."""
    lines = [*_layer_lines(job, book), _logits(job, book)]
    if job.shape.vision is not None:
        lines.append(book.line(MemoryPart.ACTIVATIONS, "vision_tower"))
    if job.shape.is_guess:
        lines = [_widened(line) for line in lines]
    return tuple(lines)


def _widened(line: Line) -> Line:
    return replace(line, amount=line.amount.widened(_GUESS_BELOW, _GUESS_ABOVE))


def _layer_lines(job: Job, book: Book) -> tuple[Line, ...]:
    kept = _all_layers(job, book)
    if job.recompute is Recompute.FULL:
        return _checkpointed(job, book, kept)
    if job.recompute is Recompute.SELECTIVE:
        selective = _times_layers(book.line(MemoryPart.ACTIVATIONS, "korthikanti_selective"), job)
        return (min(selective, kept, key=lambda line: line.amount.likely),)
    if JobOption.RECOMPUTE not in job.unstated:
        return (kept,)
    # not stated: the lower end of the range is what checkpointing would leave
    least = sum(line.amount.likely for line in _checkpointed(job, book, kept))
    amount = Amount(min(least, kept.amount.low), kept.amount.likely, kept.amount.high)
    return (replace(kept, amount=amount),)


def _checkpointed(job: Job, book: Book, kept: Line) -> tuple[Line, ...]:
    """The input of every layer, and one layer's activations while it is computed again."""
    inputs = _times_layers(book.line(MemoryPart.ACTIVATIONS, "full_recompute"), job)
    if job.precision is Precision.FP32:
        inputs = inputs.times(2)
    layer = kept.times(1 / job.shape.layers)
    if JobOption.RECOMPUTE not in job.unstated:
        return inputs, layer
    # not stated: the upper end of the range is what all layers would keep
    most = max(layer.amount.high, kept.amount.high - inputs.amount.high)
    return inputs, replace(layer, amount=replace(layer.amount, high=most))


def _all_layers(job: Job, book: Book) -> Line:
    line = _per_layer(job, book)
    if job.lora is not None:
        name = "hf_llama_lora.all_linear" if job.lora.covers_all else "hf_llama_lora.qv"
        ratio = book.table.formula(name).evaluate({"activations": 1.0}).likely
        line = replace(line.times(ratio), formula=f"{line.formula} x {name}")
    return _times_layers(line, job)


def _per_layer(job: Job, book: Book) -> Line:
    is_eager = job.attention is Attention.EAGER
    if not job.shape.is_gated:
        name = "gpt_layer.eager" if is_eager else "gpt_layer.sdpa"
        line = book.line(MemoryPart.ACTIVATIONS, name)
        return line.times(2) if job.precision is Precision.FP32 else line
    name = "hf_llama_fp32_sdpa" if job.precision is Precision.FP32 else "hf_llama_bf16_sdpa"
    line = book.line(MemoryPart.ACTIVATIONS, name)
    if not is_eager:
        return line
    extra = book.line(MemoryPart.ACTIVATIONS, "hf_llama_bf16_eager_extra")
    return replace(
        line, formula=f"{line.formula} + {extra.formula}", amount=line.amount + extra.amount
    )


def _times_layers(line: Line, job: Job) -> Line:
    return line.times(job.shape.layers)


def _logits(job: Job, book: Book) -> Line:
    if job.has_fused_loss:
        return book.line(MemoryPart.LOGITS, "logits_fused_loss")
    if job.precision is Precision.FP32:
        return book.line(MemoryPart.LOGITS, "logits_fp32_model_hf_loss")
    return book.line(MemoryPart.LOGITS, "logits_16bit_model_hf_loss")


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


NOTHING = Amount.of(0.0)


class MemoryPart(Enum):
    """What a line is about; the order is the order of the stack."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    MASTER = "master weights"
    OPTIMIZER = "optimizer states"
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
        return frozenset((self.table.formula(formula_id).moment or "all").split())


def is_firm(formula: Formula) -> bool:
    """Whether a formula's evidence may fail a plan."""
    return formula.provenance.is_firm


def largest(stacks: Iterable[Stack]) -> Stack:
    """The stack with the largest likely total."""
    return max(stacks, key=lambda stack: stack.total.likely)
