"""Activations, logits and the vision tower: what the backward pass holds beside the states."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.matrix.memory_table import Amount
from envguard.memory.job import Attention, Option, Precision, Recompute
from envguard.memory.lines import Line, Part

if TYPE_CHECKING:
    from envguard.memory.job import Job
    from envguard.memory.lines import Book

# Widths taken from another model of the same size differ by about this much among public models.
_GUESS_BELOW, _GUESS_ABOVE = 0.75, 1.33


def activation_lines(job: Job, book: Book) -> tuple[Line, ...]:
    """What one GPU holds at the peak of the backward pass, states apart."""
    lines = [*_layer_lines(job, book), _logits(job, book)]
    if job.shape.vision is not None:
        lines.append(book.line(Part.ACTIVATIONS, "vision_tower"))
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
        selective = _times_layers(book.line(Part.ACTIVATIONS, "korthikanti_selective"), job)
        return (min(selective, kept, key=lambda line: line.amount.likely),)
    if Option.RECOMPUTE not in job.unstated:
        return (kept,)
    # not stated: the lower end of the range is what checkpointing would leave
    least = sum(line.amount.likely for line in _checkpointed(job, book, kept))
    amount = Amount(min(least, kept.amount.low), kept.amount.likely, kept.amount.high)
    return (replace(kept, amount=amount),)


def _checkpointed(job: Job, book: Book, kept: Line) -> tuple[Line, ...]:
    """The input of every layer, and one layer's activations while it is computed again."""
    inputs = _times_layers(book.line(Part.ACTIVATIONS, "full_recompute"), job)
    if job.precision is Precision.FP32:
        inputs = inputs.times(2)
    layer = kept.times(1 / job.shape.layers)
    if Option.RECOMPUTE not in job.unstated:
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
        line = book.line(Part.ACTIVATIONS, name)
        return line.times(2) if job.precision is Precision.FP32 else line
    name = "hf_llama_fp32_sdpa" if job.precision is Precision.FP32 else "hf_llama_bf16_sdpa"
    line = book.line(Part.ACTIVATIONS, name)
    if not is_eager:
        return line
    extra = book.line(Part.ACTIVATIONS, "hf_llama_bf16_eager_extra")
    return replace(
        line, formula=f"{line.formula} + {extra.formula}", amount=line.amount + extra.amount
    )


def _times_layers(line: Line, job: Job) -> Line:
    return line.times(job.shape.layers)


def _logits(job: Job, book: Book) -> Line:
    if job.has_fused_loss:
        return book.line(Part.LOGITS, "logits_fused_loss")
    if job.precision is Precision.FP32:
        return book.line(Part.LOGITS, "logits_fp32_model_hf_loss")
    return book.line(Part.LOGITS, "logits_16bit_model_hf_loss")
