"""GPU memory of one rank: which formulas hold in which phase of a job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.matrix.memory import Amount
from envguard.memory.activations import activation_lines, on_gpu
from envguard.memory.formulas import Line, MemoryPart, Stack, largest
from envguard.memory.job import (
    Method,
    Placement,
    Precision,
    Quantized,
    Reference,
    Rollout,
    SaveMode,
    Strategy,
)
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from envguard.memory.formulas import Book
    from envguard.memory.job import Job

# Until this release the updated weights went back to the GPU in fp32 (deepspeed PR 7307).
_PINNED_STAGING = Version("0.17")


@dataclass(frozen=True, slots=True)
class GpuPhases:
    """One stack a phase; the step's is that of its larger moment."""

    load: Stack
    init: Stack
    step: Stack
    save: Stack
    resume: Stack


def plan_gpu(
    job: Job, book: Book, *, flattens_on_host: bool, room: float | None = None
) -> GpuPhases:
    """The memory of one GPU in every phase.

    Args:
        job: The job.
        book: Its formulas.
        flattens_on_host: ZeRO-1 and -2 make their flat copy of the weights on the host.
        room: Bytes that the job can have of the GPU; None is not known.
    """
    states = _state_lines(job, book)
    held = _alive(states, book, "all")
    weights = tuple(
        line for line in held if line.part in {MemoryPart.WEIGHTS, MemoryPart.REFERENCE}
    )

    def stack(*lines: Line) -> Stack:
        return _with_overheads(job, book, lines, room)

    return GpuPhases(
        load=stack(*weights, *_load_lines(job, book)),
        init=stack(*weights, *_init_lines(job, book, flattens_on_host)),
        step=largest(stack(*held, *lines) for lines in _moments(job, book, states)),
        save=stack(*held, *_alive(states, book, "rest"), *_save_lines(job, book)),
        resume=stack(*held, *_alive(states, book, "rest")),
    )


def _moments(job: Job, book: Book, states: tuple[Line, ...]) -> tuple[tuple[Line, ...], ...]:
    """What a step holds when the loss is there, at the end of the backward pass, at the update.

    At the loss all activations are there and no gradient is, unless gradients are accumulated over
    several passes; at the end of the backward pass it is the other way round.
    """
    kept = activation_lines(job, book)
    activations = on_gpu(kept, job)
    last = tuple(
        line.times(1 / job.shape.layers) for line in kept if line.part is MemoryPart.ACTIVATIONS
    )
    earlier = tuple(
        _accumulated(line, job)
        for line in _alive(states, book, "backward")
        if line.part is MemoryPart.GRADIENTS and "module" not in line.formula
    )
    loss = tuple(line for line in _alive(states, book, "loss") if line not in earlier)
    return (
        (*loss, *earlier, *activations),
        (*_alive(states, book, "backward"), *last),
        _alive(states, book, "update"),
        _alive(states, book, "rollout"),
    )


def _accumulated(line: Line, job: Job) -> Line:
    """Gradients of earlier passes: certain, excluded, or possible where it is not stated."""
    if job.accumulates is None:
        return replace(line, amount=Amount(0.0, 0.0, line.amount.high))
    return line if job.accumulates else line.times(0)


def _alive(lines: tuple[Line, ...], book: Book, moment: str) -> tuple[Line, ...]:
    """The lines that are alive at a moment, those that always are apart."""
    return tuple(line for line in lines if moment in book.moments(line.formula))


def _state_lines(job: Job, book: Book) -> tuple[Line, ...]:
    lines = _STATES[job.strategy](job, book)
    if job.method.has_value_model:
        lines = tuple(_with_value_model(line) for line in lines)
    lines = (*lines, *_quantized_lines(job, book), *_models_beside(job, book))
    if job.parallel.tensor > 1:
        lines = tuple(_divided(line, book, job.parallel.tensor) for line in lines)
    lines = (*lines, *_rollout_lines(job, book))
    if job.optimizer.is_paged:  # the driver moves a paged optimizer's states out when it must
        lines = tuple(_paged(line) if line.part is MemoryPart.OPTIMIZER else line for line in lines)
    return lines


# What a value model has of its own; what is gathered or reduced is one model's at a time.
_OF_EACH_MODEL = frozenset(
    {MemoryPart.WEIGHTS, MemoryPart.GRADIENTS, MemoryPart.MASTER, MemoryPart.OPTIMIZER}
)


def _with_value_model(line: Line) -> Line:
    if line.part not in _OF_EACH_MODEL or "module" in line.formula:
        return line
    return replace(line.times(2), formula=f"{line.formula} x 2 models")


def _quantized_lines(job: Job, book: Book) -> tuple[Line, ...]:
    """What quantised weights hold beside themselves, and those that are cast to 8 bits for use."""
    if job.precision is Precision.FP8:
        return (book.line(MemoryPart.TRANSIENT, "fp8.weights"),)
    if job.quantized is None:
        return ()
    lines = [book.line(MemoryPart.TRANSIENT, "qlora.dequantized")]
    if job.keeps_masters:
        lines.append(book.line(MemoryPart.WEIGHTS, "qlora.kept_in_fp32"))
    if job.strategy.is_fsdp:
        lines.append(book.line(MemoryPart.WEIGHTS, "fsdp.quant_scales"))
    return tuple(lines)


def _models_beside(job: Job, book: Book) -> tuple[Line, ...]:
    """The reference, the reward model, a teacher: frozen, and sharded where the strategy does."""
    shards = job.strategy is Strategy.ZERO3 or job.strategy.is_fsdp
    kind = "sharded" if shards else "whole"
    names = [f"reference.{kind}"] if job.reference is Reference.COPY else []
    if job.method is Method.GRPO and job.reference is Reference.NONE:
        names.append("reference.possible")
    if job.method is Method.PPO:  # a reward model of the same size
        names.append(f"reward.{kind}")
    if job.beside:
        names.append(f"beside.{kind}")
    return tuple(book.line(MemoryPart.REFERENCE, name) for name in names)


def _divided(line: Line, book: Book, ranks: int) -> Line:
    """What is whole on a GPU is divided by tensor parallelism; what is shared by all stays so."""
    names = book.table.formula(line.formula.split(" ")[0]).expr.names
    return line if names & {"N", "shards"} else line.times(1 / ranks)


def _rollout_lines(job: Job, book: Book) -> tuple[Line, ...]:
    """What generating samples takes, and bringing the weights to what generates them."""
    gathers = job.strategy is Strategy.ZERO3
    shards = gathers or job.strategy.is_fsdp
    names: list[str] = []
    if job.engine.rollout is Rollout.OWN:
        names = ["rollout.kv_cache", *(["rollout.gathered"] if shards else [])]
    elif job.engine.rollout is Rollout.COLOCATE:
        sleeps = job.engine.sleeps > 0
        names = ["rollout.engine", "rollout.asleep"] if sleeps else ["rollout.engine_awake"]
    if job.engine.rollout in {Rollout.COLOCATE, Rollout.SEPARATE} and shards:
        names.append("rollout.gathered" if gathers and job.lora else "rollout.sync")
    return tuple(book.line(MemoryPart.ROLLOUT, name) for name in names)


def _paged(line: Line) -> Line:
    return replace(line, amount=Amount(0.0, line.amount.likely, line.amount.high))


def _zero12_lines(job: Job, book: Book) -> tuple[Line, ...]:
    stage = job.strategy.value
    lines = [
        book.line(MemoryPart.WEIGHTS, f"{stage}.weights"),
        book.line(MemoryPart.BUCKETS, "zero_buckets"),
        book.line(MemoryPart.BUCKETS, "zero12.largest_gradient"),
    ]
    if job.optimizer_on is Placement.GPU:
        lines += [
            book.line(MemoryPart.GRADIENTS, f"{stage}.gradients"),
            book.line(MemoryPart.GRADIENTS, "zero12.step_gradients"),
            book.line(MemoryPart.MASTER, "zero12.master"),
            book.line(MemoryPart.OPTIMIZER, "zero12.optimizer"),
        ]
        return tuple(lines)
    if job.strategy is Strategy.ZERO1:
        lines.append(book.line(MemoryPart.GRADIENTS, "zero1.gradients"))
    lines.append(book.line(MemoryPart.BUCKETS, "zero12_offload.gradient_buffer"))
    if job.versions.deepspeed < _PINNED_STAGING:
        lines.append(book.line(MemoryPart.TRANSIENT, "zero12_offload.staging_until_0_16"))
    return tuple(lines)


def _zero3_lines(job: Job, book: Book) -> tuple[Line, ...]:
    lines = [
        book.line(MemoryPart.GATHERED, "zero3.live"),
        book.line(MemoryPart.GRADIENTS, "zero3.module_gradients"),
        book.line(MemoryPart.GATHERED, "zero3.still_live"),
        book.line(MemoryPart.BUCKETS, "zero3.bucket"),
    ]
    if job.params_on is Placement.GPU:
        lines.append(book.line(MemoryPart.WEIGHTS, "zero3.weights"))
    if job.optimizer_on is Placement.GPU:
        lines += [
            book.line(MemoryPart.GRADIENTS, "zero3.gradients"),
            book.line(MemoryPart.GRADIENTS, "zero3.step_gradients"),
            book.line(MemoryPart.MASTER, "zero3.master"),
            book.line(MemoryPart.OPTIMIZER, "zero3.optimizer"),
        ]
    return tuple(lines)


def _fsdp_lines(job: Job, book: Book) -> tuple[Line, ...]:
    lines = [
        book.line(MemoryPart.GATHERED, "fsdp.units"),
        book.line(MemoryPart.TRANSIENT, "fsdp.unit_gradients"),
    ]
    if job.strategy is Strategy.FSDP_GRAD_OP:
        lines.append(book.line(MemoryPart.GATHERED, "fsdp.unsharded"))
    if job.params_on is Placement.GPU:
        lines += [
            book.line(MemoryPart.WEIGHTS, "fsdp.weights"),
            book.line(MemoryPart.GRADIENTS, "fsdp.gradients"),
            book.line(MemoryPart.OPTIMIZER, "fsdp.optimizer"),
            book.line(MemoryPart.TRANSIENT, "fsdp.step_temporaries"),
        ]
    return tuple(lines)


def _ddp_lines(job: Job, book: Book) -> tuple[Line, ...]:
    lines = [
        book.line(MemoryPart.WEIGHTS, "ddp.weights"),
        book.line(MemoryPart.GRADIENTS, "ddp.gradients"),
        book.line(MemoryPart.OPTIMIZER, "ddp.optimizer"),
        book.line(MemoryPart.TRANSIENT, "ddp.step_temporaries"),
    ]
    if job.keeps_masters:
        lines.append(book.line(MemoryPart.GATHERED, "ddp.autocast_cache"))
    if job.gpus > 1:  # the reducer's second copy of all gradients
        lines.append(book.line(MemoryPart.BUCKETS, "ddp_bucket_copy"))
    return tuple(lines)


_STATES: Mapping[Strategy, Callable[[Job, Book], tuple[Line, ...]]] = {
    Strategy.DDP: _ddp_lines,
    Strategy.ZERO1: _zero12_lines,
    Strategy.ZERO2: _zero12_lines,
    Strategy.ZERO3: _zero3_lines,
    Strategy.FSDP_FULL: _fsdp_lines,
    Strategy.FSDP_GRAD_OP: _fsdp_lines,
    Strategy.FSDP_HYBRID: _fsdp_lines,
}


def _load_lines(job: Job, book: Book) -> tuple[Line, ...]:
    if job.quantized is not None and job.quantized is not Quantized.GPTQ:
        return (book.line(MemoryPart.TRANSIENT, "qlora.quantizing"),)
    if job.strategy is Strategy.ZERO3 and job.zero.zero_init:
        return (book.line(MemoryPart.TRANSIENT, "zero3_load.module"),)
    return ()


def _init_lines(job: Job, book: Book, flattens_on_host: bool) -> tuple[Line, ...]:
    """Copies that only exist while the engine is set up."""
    if not job.strategy.is_deepspeed:
        return ()
    keeps_states = job.optimizer_on is Placement.GPU
    if job.strategy is Strategy.ZERO3:
        lines = [book.line(MemoryPart.BUCKETS, "zero3.bucket")]
        lines += [book.line(MemoryPart.TRANSIENT, "zero3_init.master")] if keeps_states else []
        if not job.zero.zero_init:
            lines.append(book.line(MemoryPart.TRANSIENT, "zero3_no_zero_init.gpu"))
        return tuple(lines)
    if flattens_on_host:
        names = ["zero12_init.states"] if keeps_states else []
    else:
        names = ["zero12_init.copies" if keeps_states else "zero12_init.flat_copy"]
    return tuple(book.line(MemoryPart.TRANSIENT, name) for name in names)


def _save_lines(job: Job, book: Book) -> tuple[Line, ...]:
    if job.strategy is Strategy.ZERO3 and job.save in {SaveMode.TRAINER, SaveMode.HALF}:
        if job.zero.gathers_on_save:
            return (
                book.line(MemoryPart.TRANSIENT, "hf_trainer_deepspeed_zero3_gather.gpu_transient"),
            )
        return ()
    gathers = job.save not in {SaveMode.SHARDED, SaveMode.DCP_ASYNC} and not job.fsdp_sharded
    if job.strategy.is_fsdp and gathers:
        return (book.line(MemoryPart.TRANSIENT, "fsdp.gathered_at_save"),)
    return ()


def _with_overheads(job: Job, book: Book, lines: tuple[Line, ...], room: float | None) -> Stack:
    """The lines with what the driver, NCCL and the allocator take beside tensors."""
    overheads = [book.line(MemoryPart.CONTEXT, "cuda_context")]
    if job.gpus > 1:
        overheads.append(book.line(MemoryPart.NCCL, "nccl_per_communicator_observed"))
    stack = Stack(tuple(line for line in lines if line.amount.high > 0))
    left = None if room is None else room - stack.plus(*overheads).total.likely
    kind = "fragmentation.expandable" if job.is_expandable else "fragmentation"
    return stack.plus(*overheads, _fragmentation(book, stack, left, kind))


def _fragmentation(book: Book, stack: Stack, left: float | None, kind: str) -> Line:
    """What is reserved and unused; near the limit only what the allocator cannot give back.

    Args:
        book: The formulas.
        stack: Tensors that are alive together.
        left: Bytes that they leave of the GPU; None is not known.
        kind: Id of the formula.
    """
    formula = book.table.formula(kind)
    total = stack.total
    likely = formula.evaluate({"allocated": total.likely}).likely
    if left is not None:
        least = book.table.formula("fragmentation.least").evaluate({"allocated": total.likely})
        likely = min(likely, max(least.likely, left))
    high = formula.evaluate({"allocated": total.high})
    amount = Amount(0.0, likely, max(likely, high.high))
    return Line(MemoryPart.FRAGMENTATION, formula.id, amount, formula.what, is_firm=False)
