"""What layers keep for the backward pass, and what the loss makes of the last one's output."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.matrix.memory import Amount
from envguard.memory.formulas import Book, Line, MemoryPart, job_symbols
from envguard.memory.job import (
    Attention,
    JobOption,
    Loss,
    Method,
    Placement,
    Precision,
    Recompute,
    Reference,
    Strategy,
)

if TYPE_CHECKING:
    from envguard.memory.job import Job, Lora


# Widths taken from another model of the same size differ by about this much among public models.
_GUESS_BELOW, _GUESS_ABOVE = 0.75, 1.33
_FP8_BELOW = 0.6  # inputs of linear layers are four fifths of what a layer keeps


def activation_lines(job: Job, book: Book) -> tuple[Line, ...]:
    """What one GPU holds at the peak of the backward pass, states apart."""
    lines = tuple(line.times(1 / job.parallel.tensor) for line in _lines_of(job, book))
    if job.precision is Precision.FP8:  # some libraries keep the casts, of a byte an element
        lines = tuple(_widened(line, _FP8_BELOW, 1.0) for line in lines)
    if not job.shape.is_guess:
        return lines
    if not job.shape.others:
        return tuple(_widened(line, _GUESS_BELOW, _GUESS_ABOVE) for line in lines)
    return _spanned(job, book, lines)


def _lines_of(job: Job, book: Book) -> tuple[Line, ...]:
    lines = [*_layer_lines(job, book), *_logits(job, book)]
    if job.shape.vision is not None:
        lines.append(book.line(MemoryPart.ACTIVATIONS, "vision_tower"))
    return tuple(lines)


def _widened(line: Line, below: float, above: float) -> Line:
    return replace(line, amount=line.amount.widened(below, above))


def _spanned(job: Job, book: Book, lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """The range of activations and of logits over all models of about the size that is stated."""
    totals: dict[MemoryPart, list[float]] = {}
    for shape in (job.shape, *job.shape.others):
        other = replace(job, shape=replace(shape, is_guess=False))
        own = Book(book.table, job_symbols(other, book.table), pins_memory=book.pins_memory)
        found = tuple(n.times(1 / job.parallel.tensor) for n in _lines_of(other, own))
        for part in {line.part for line in lines}:
            likely = sum(line.amount.likely for line in found if line.part is part)
            totals.setdefault(part, []).append(likely)
    spanned = []
    for line in lines:
        first, *_ = known = totals[line.part]
        below, above = (min(known) / first, max(known) / first) if first else (1.0, 1.0)
        spanned.append(_widened(line, below, above))
    return tuple(spanned)


def _layer_lines(job: Job, book: Book) -> tuple[Line, ...]:
    kept = _all_layers(job, book)
    if job.recompute is Recompute.FULL:
        return _checkpointed(job, book, kept)
    if job.recompute is Recompute.SELECTIVE:
        return _selective(job, book, kept)
    if JobOption.RECOMPUTE not in job.unstated:
        return (kept,)
    # not stated: the lower end of the range is what checkpointing would leave
    least = sum(line.amount.likely for line in _checkpointed(job, book, kept))
    amount = Amount(min(least, kept.amount.low), kept.amount.likely, kept.amount.high)
    return (replace(kept, amount=amount),)


def _checkpointed(job: Job, book: Book, kept: Line) -> tuple[Line, ...]:
    """The input of every layer, and one layer's activations while it is computed again."""
    inputs = _times_layers(book.line(MemoryPart.ACTIVATIONS, "full_recompute"), job)
    if job.precision is Precision.FP32 or _has_fp32_stream(job):
        inputs = inputs.times(2)
    layer = kept.times(1 / job.shape.layers)
    if JobOption.RECOMPUTE not in job.unstated:
        return inputs, layer
    # not stated: the upper end of the range is what all layers would keep
    most = max(layer.amount.high, kept.amount.high - inputs.amount.high)
    return inputs, replace(layer, amount=replace(layer.amount, high=most))


def _selective(job: Job, book: Book, kept: Line) -> tuple[Line, ...]:
    """What is kept of every layer, and one layer while the rest of it is computed again.

    Megatron's selective checkpointing drops the scores of attention only: the high end.
    """
    line = _times_layers(book.line(MemoryPart.ACTIVATIONS, "selective_op"), job)
    if job.precision is Precision.FP32:
        line = line.times(2)
    scores = _times_layers(book.line(MemoryPart.ACTIVATIONS, "korthikanti_selective"), job)
    most = min(scores.amount.likely, kept.amount.likely)
    if most <= line.amount.likely:
        return (kept,)
    amount = replace(line.amount, high=most)
    return replace(line, amount=amount), kept.times(1 / job.shape.layers)


def _has_fp32_stream(job: Job) -> bool:
    """fp32 weights under autocast, whose embedding makes the residual stream fp32."""
    return job.strategy is Strategy.DDP and job.keeps_masters and job.lora is None


def _all_layers(job: Job, book: Book) -> Line:
    if job.lora is None:
        return _times_layers(_per_layer(job, book), job)
    line = _adapted(job, book, job.lora) if job.shape.is_gated else _adapted_gpt(job, book)
    return _times_layers(line, job)


def _adapted_gpt(job: Job, book: Book) -> Line:
    """A layer without a gate with adapters: what they leave of it."""
    name = "hf_llama_lora.all_linear" if job.lora and job.lora.covers_all else "hf_llama_lora.qv"
    ratio = book.table.formula(name).evaluate({"activations": 1.0}).likely
    line = _per_layer(job, book)
    return replace(line.times(ratio), formula=f"{line.formula} x {name}")


def _adapted(job: Job, book: Book, lora: Lora) -> Line:
    """A frozen layer and what its adapters keep of their inputs and products."""
    least = _plus(book, "hf_llama_frozen", _undropped(job))
    most = _plus(book, "hf_llama_frozen", "lora.inputs_dropped")
    if lora.has_dropout is None:  # most recipes have it
        line = replace(most, amount=Amount(least.amount.low, most.amount.likely, most.amount.high))
    else:
        line = most if lora.has_dropout else least
    if job.attention is Attention.EAGER:
        line = _joined(line, book.line(MemoryPart.ACTIVATIONS, "hf_llama_bf16_eager_extra"))
    if lora.is_dora:
        line = _joined(line, book.line(MemoryPart.ACTIVATIONS, "lora.dora"))
    if job.quantized is not None and job.keeps_masters:
        line = _joined(line, book.line(MemoryPart.ACTIVATIONS, "lora.fp32_stream"))
    return line.times(2) if job.precision is Precision.FP32 else line


def _undropped(job: Job) -> str:
    """How adapters without dropout keep their inputs: cast for each under autocast, or shared."""
    is_cast = job.strategy is Strategy.DDP and job.keeps_masters and job.quantized is None
    return "lora.inputs_own" if is_cast else "lora.inputs_shared"


def _plus(book: Book, first: str, second: str) -> Line:
    lines = [book.line(MemoryPart.ACTIVATIONS, name) for name in (first, second)]
    return _joined(*lines)


def _joined(line: Line, extra: Line) -> Line:
    return replace(
        line, formula=f"{line.formula} + {extra.formula}", amount=line.amount + extra.amount
    )


def _per_layer(job: Job, book: Book) -> Line:
    is_eager = job.attention is Attention.EAGER
    if not job.shape.is_gated:
        name = "gpt_layer.eager" if is_eager else "gpt_layer.sdpa"
        line = book.line(MemoryPart.ACTIVATIONS, name)
        return line.times(2) if job.precision is Precision.FP32 else line
    line = book.line(MemoryPart.ACTIVATIONS, _gated_layer(job))
    if not is_eager:
        return line
    return _joined(line, book.line(MemoryPart.ACTIVATIONS, "hf_llama_bf16_eager_extra"))


def _gated_layer(job: Job) -> str:
    if job.precision is Precision.FP32:
        return "hf_llama_fp32_sdpa"
    return "hf_llama_autocast_sdpa" if _has_fp32_stream(job) else "hf_llama_bf16_sdpa"


def _times_layers(line: Line, job: Job) -> Line:
    return line.times(job.shape.layers)


def _logits(job: Job, book: Book) -> tuple[Line, ...]:
    """What the loss makes of the last layer, and what the reference's logits may add."""
    if not (job.method.has_logits and job.shape.has_logits):
        return (book.line(MemoryPart.LOGITS, "logits_scores"),)
    line = book.line(MemoryPart.LOGITS, _LOGITS[job.loss])
    if job.loss is Loss.PLAIN and job.precision is Precision.FP32:
        line = book.line(MemoryPart.LOGITS, "logits_fp32_model_hf_loss")
    if job.method is not Method.SFT and job.loss is Loss.PLAIN:
        # trl takes the logits of these methods in tiles, other trainers whole
        fused = book.line(MemoryPart.LOGITS, "logits_fused_loss")
        line = replace(
            line, amount=replace(line.amount, low=min(line.amount.low, fused.amount.low))
        )
    if job.reference in {Reference.COPY, Reference.ADAPTER} and job.loss is Loss.PLAIN:
        return line, book.line(MemoryPart.LOGITS, "reference.logits")
    return (line,)


_LOGITS = {
    Loss.PLAIN: "logits_16bit_model_hf_loss",
    Loss.KERNEL: "logits_kernel_loss",
    Loss.CHUNKED: "logits_chunked_loss",
    Loss.FUSED: "logits_fused_loss",
}


# Layers whose activations are on their way when the others' are on the host.
_IN_FLIGHT = 2


def on_gpu(lines: tuple[Line, ...], job: Job) -> tuple[Line, ...]:
    """Activations as the GPU holds them: of those that go to the host, two layers'."""
    if job.activations_on is Placement.GPU:
        return lines
    share = min(1.0, _IN_FLIGHT / job.shape.layers)
    return tuple(line.times(share) if is_offloaded(line, job) else line for line in lines)


def is_offloaded(line: Line, job: Job) -> bool:
    """Whether a line is kept over the whole pass: inputs of layers, or all that layers keep."""
    if line.part is not MemoryPart.ACTIVATIONS or line.formula == "vision_tower":
        return False
    return job.recompute is not Recompute.FULL or line.formula == "full_recompute"
