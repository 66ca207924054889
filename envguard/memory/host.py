"""Host memory of one node: processes, offloaded states, loading, checkpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.matrix.memory import Amount
from envguard.memory.activations import activation_lines, is_offloaded
from envguard.memory.formulas import Book, Line, MemoryPart, Stack, largest
from envguard.memory.job import Placement, Rollout, SaveMode, Strategy
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.memory.job import Job


@dataclass(frozen=True, slots=True)
class HostPhases:
    """One stack a phase, for the busiest node."""

    load: Stack
    init: Stack
    step: Stack
    save: Stack
    resume: Stack


def plan_host(job: Job, book: Book, *, flattens_on_host: bool) -> HostPhases:
    """The memory of one node in every phase.

    Args:
        job: The job.
        book: Its formulas.
        flattens_on_host: ZeRO-1 and -2 make their flat copy of the weights on the host.
    """
    ranks = float(job.ranks_per_node)
    processes = book.line(MemoryPart.BASELINE, "host_baseline.per_rank", per=ranks)
    offloaded = _offload_lines(job, book, ranks)
    kept = _kept_after_load(job, book, ranks)
    setup = _init_lines(job, book, ranks, flattens_on_host=flattens_on_host)
    return HostPhases(
        load=_stack(processes, *_load_lines(job, book, ranks)),
        init=_stack(processes, *kept, *_without_states(offloaded), *setup),
        step=_stack(processes, *offloaded),
        save=_stack(processes, *offloaded, *save_lines(job, book)),
        resume=_stack(processes, *offloaded, *resume_lines(job, book)),
    )


def _stack(*lines: Line) -> Stack:
    return Stack(tuple(line for line in lines if line.amount.high > 0))


def _load_lines(job: Job, book: Book, ranks: float) -> tuple[Line, ...]:
    """Reading the checkpoint: mapped by transformers 5, copied by every rank before it."""
    cache = book.line(MemoryPart.FILE_CACHE, "from_pretrained_v5_checkpoint_dtype.filecache")
    cache = replace(cache, is_reclaimable=True)
    if _loads_sharded(job):
        lines = (book.line(MemoryPart.LOADING, "hf_zero3_init.anon", per=ranks),)
    elif job.versions.transformers.major >= 5:
        name = "from_pretrained_v5_checkpoint_dtype.anon"
        lines = (book.line(MemoryPart.LOADING, name, per=ranks),)
    else:
        readers = _readers(job, ranks)
        peak = book.line(MemoryPart.LOADING, "from_pretrained_v4_default.peak", per=readers)
        half = book.line(MemoryPart.LOADING, "from_pretrained_16bit_v4", per=readers)
        lines = (_as_low_as(peak, half),)
    return (*lines, cache)


def _readers(job: Job, ranks: float) -> float:
    """Ranks of a node that hold the weights of the checkpoint."""
    return 1.0 if job.strategy.is_fsdp and job.fsdp_efficient_load else ranks


def _loads_sharded(job: Job) -> bool:
    return job.strategy is Strategy.ZERO3 and job.zero.zero_init


def _as_low_as(line: Line, other: Line) -> Line:
    """The line with the other's amount as its lower end: the 16-bit dtype may be asked for."""
    amount = Amount(min(line.amount.low, other.amount.low), line.amount.likely, line.amount.high)
    return replace(line, amount=amount)


def _kept_after_load(job: Job, book: Book, ranks: float) -> tuple[Line, ...]:
    """Weights that stay on the host until the engine has taken them over."""
    if _loads_sharded(job) or job.versions.transformers.major >= 5:
        return ()
    readers = _readers(job, ranks)
    kept = book.line(MemoryPart.LOADING, "from_pretrained_v4_default.anon", per=readers)
    return (
        _as_low_as(kept, book.line(MemoryPart.LOADING, "from_pretrained_16bit_v4", per=readers)),
    )


def _init_lines(job: Job, book: Book, ranks: float, *, flattens_on_host: bool) -> tuple[Line, ...]:
    if job.strategy in {Strategy.ZERO1, Strategy.ZERO2} and flattens_on_host:
        return (book.line(MemoryPart.TRANSIENT, "zero12_init.flatten_on_host", per=ranks),)
    if job.strategy is Strategy.ZERO3 and job.optimizer_on is Placement.CPU:
        return (book.line(MemoryPart.TRANSIENT, "zero3_offload.conversion", per=ranks),)
    # transformers 5 trains with FSDP2, whose weights accelerate turns into fp32 on the host
    is_upcast = job.keeps_masters and job.quantized is None
    if job.strategy.is_fsdp and is_upcast and job.versions.transformers.major >= 5:
        return (_upcast(job, book, ranks),)
    return ()


def _upcast(job: Job, book: Book, ranks: float) -> Line:
    """One fp32 copy a node, or one a rank; where it is not stated, the range holds both."""
    if job.fsdp_efficient_load is False:
        return book.line(MemoryPart.LOADING, "fsdp2_upcast_on_host", per=ranks)
    line = book.line(MemoryPart.LOADING, "fsdp2_upcast_on_rank0")
    if job.fsdp_efficient_load is None:
        return line
    return replace(line, amount=Amount.of(line.amount.likely))


def _offload_lines(job: Job, book: Book, ranks: float) -> tuple[Line, ...]:
    """States that live on the host; a paged optimizer's may."""
    names: list[str] = []
    match job.strategy:
        case Strategy.ZERO1 | Strategy.ZERO2:
            names = _zero12_offload(job)
        case Strategy.ZERO3:
            names = _zero3_offload(job)
        case Strategy.FSDP_FULL | Strategy.FSDP_GRAD_OP | Strategy.FSDP_HYBRID:
            names = ["fsdp_offload.states"] if job.params_on is Placement.CPU else []
        case Strategy.DDP:
            pass
    if job.optimizer.is_paged and job.optimizer_on is Placement.GPU:
        names.append("optimizer.paged_on_host")
    if job.engine.rollout is Rollout.COLOCATE and job.engine.sleeps == 1:
        names.append("rollout.weights_on_host")
    lines = [book.line(MemoryPart.OFFLOADED, name, per=ranks) for name in names]
    if job.activations_on is Placement.CPU:
        lines.append(_activations(job, book, ranks))
    return tuple(lines)


def _activations(job: Job, book: Book, ranks: float) -> Line:
    """What all layers keep for the backward pass, where it goes to the host."""
    kept = (n.amount.likely for n in activation_lines(job, book) if is_offloaded(n, job))
    symbols = {**book.symbols, "offloaded_activations": sum(kept)}
    own = Book(book.table, symbols, pins_memory=book.pins_memory, spread=book.spread)
    return own.line(MemoryPart.OFFLOADED, "activations.on_host", per=ranks)


def _zero12_offload(job: Job) -> list[str]:
    match job.optimizer_on:
        case Placement.GPU:
            return []
        case Placement.NVME:
            return ["nvme.optimizer_buffers"]
        case Placement.CPU:
            parts = ("master", "gradients", "staging", "optimizer", "largest")
            return [f"zero12_offload.{part}" for part in parts]


def _zero3_offload(job: Job) -> list[str]:
    names: list[str] = []
    match job.params_on:
        case Placement.CPU:
            is_pinned = job.zero.zero_init and job.zero.pins_memory
            names += ["zero3_offload.weights"]
            names += ["zero3_offload.init_partitions"] if is_pinned else []
            names += ["zero3_offload.frozen" if is_pinned else "zero3_offload.frozen_pageable"]
        case Placement.NVME:
            names.append("nvme.param_buffers")
        case Placement.GPU:
            pass
    match job.optimizer_on:
        case Placement.CPU:
            parts = ("master", "step_gradients", "gradients", "optimizer")
            names += [f"zero3_offload.{part}" for part in parts]
        case Placement.NVME:
            names += ["nvme.optimizer_buffers", "zero3_offload.gradients"]
        case Placement.GPU:
            pass
    return names


def _without_states(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """What is allocated at once; optimizer states are made in the first step."""
    return tuple(line for line in lines if not line.formula.endswith(".optimizer"))


# From this release safetensors writes CPU tensors without a copy.
_COPYLESS_SAFETENSORS = Version("0.8")
# From this release zero_to_fp32 reads its shards lazily.
_LAZY_CONSOLIDATION = Version("0.15.5")


def save_lines(job: Job, book: Book) -> tuple[Line, ...]:
    """What the save adds on the busiest node; of several copies one after another, the largest.

    Returns:
        Empty where nothing is copied.
    """
    if job.strategy.is_deepspeed:
        return _deepspeed(job, book)
    if job.strategy.is_fsdp:
        return _fsdp(job, book)
    return _ddp(job, book)


def _line(book: Book, formula: str) -> Line:
    return book.line(MemoryPart.CHECKPOINT, formula)


def _deepspeed(job: Job, book: Book) -> tuple[Line, ...]:
    # of adapters over a frozen model, only the adapters have states to write
    trained = Book(book.table, {**book.symbols, "P": book.symbols["Pt"]})
    states = _line(trained, _deepspeed_states(job))
    match job.save:
        case SaveMode.TRAINER:  # the weights first, then DeepSpeed's own checkpoint
            return _larger(_trainer_weights(job, book), (states,))
        case SaveMode.HALF:
            stage = "zero3" if job.strategy is Strategy.ZERO3 else "zero12"
            return (_line(book, f"deepspeed_save_16bit_model_{stage}.node"),)
        case SaveMode.FULL:  # the sharded save, then one fp32 file made of it
            return _larger((states,), (_line(book, _consolidation(job)),))
        case SaveMode.SHARDED | SaveMode.DCP_ASYNC:
            return (states,)


def _deepspeed_states(job: Job) -> str:
    stage = "zero3" if job.strategy is Strategy.ZERO3 else "zero12"
    return f"deepspeed_save_checkpoint_{stage}.node"


def _consolidation(job: Job) -> str:
    if job.versions.deepspeed < _LAZY_CONSOLIDATION:
        return "zero_to_fp32_before_0_15_5.anon"
    stage = "zero3" if job.strategy is Strategy.ZERO3 else "zero2"
    return f"zero_to_fp32_{stage}_since_0_15_5.anon"


def _trainer_weights(job: Job, book: Book) -> tuple[Line, ...]:
    has_adapter = "_peft" if job.lora is not None else ""
    if job.strategy is Strategy.ZERO3:
        if not job.zero.gathers_on_save:
            return (_line(book, "hf_trainer_deepspeed_zero3_no_gather.node"),)
        kind = has_adapter or "_gather"
        return (_line(book, f"hf_trainer_deepspeed_zero3{kind}.node"),)
    clones = _line(book, f"hf_trainer_deepspeed_zero012{has_adapter}.node")
    if job.versions.safetensors < _COPYLESS_SAFETENSORS:
        return (clones, _line(book, "hf_trainer_deepspeed_zero012.rank0_extra"))
    return (clones,)


def _fsdp(job: Job, book: Book) -> tuple[Line, ...]:
    match job.save:
        case SaveMode.TRAINER if job.fsdp_sharded:
            return (_line(book, "save_sharded.fsdp"),)
        case SaveMode.TRAINER:
            return (_adapter_only(job, book, _line(book, "hf_fsdp_full_state_dict.node")),)
        case SaveMode.FULL:
            return (_adapter_only(job, book, _line(book, "save_full.fsdp")),)
        case SaveMode.HALF:
            return (_line(book, "save_16bit.fsdp"),)
        case SaveMode.SHARDED:
            return (_line(book, "save_sharded.fsdp"),)
        case SaveMode.DCP_ASYNC:
            return (_line(book, "dcp_async_save_default.node"),)


def _adapter_only(job: Job, book: Book, line: Line) -> Line:
    """With adapters the optimizer is small, and the weights are the base model's."""
    if job.lora is None:
        return line
    return replace(_line(book, "hf_trainer_deepspeed_zero012_peft.per_rank"), part=line.part)


def _ddp(job: Job, book: Book) -> tuple[Line, ...]:
    if job.lora is not None and job.save is not SaveMode.FULL:
        return _larger((_line(book, "lora_save.trainer"),), (_line(book, "lora_save.optimizer"),))
    weights = _line(book, "hf_trainer_ddp_single.node")
    match job.save:
        case SaveMode.TRAINER:
            return _larger((weights,), (_line(book, "hf_trainer_ddp_optimizer.node"),))
        case SaveMode.FULL:
            return (_line(book, "state_dict_to_cpu_by_hand.per_rank"),)
        case SaveMode.DCP_ASYNC:
            return (_line(book, "dcp_async_save_default.node"),)
        case SaveMode.HALF | SaveMode.SHARDED:
            return (weights,)


def _larger(*choices: tuple[Line, ...]) -> tuple[Line, ...]:
    return largest(Stack(lines) for lines in choices).lines


def resume_lines(job: Job, book: Book) -> tuple[Line, ...]:
    """What reading the checkpoint back adds on one node."""
    ranks = float(job.ranks_per_node)
    if job.strategy.is_deepspeed:
        shard = book.line(MemoryPart.CHECKPOINT, "resume.optimizer_shard", per=ranks)
        if job.strategy is Strategy.ZERO3:
            return (shard,)
        name = "resume.model_states" if job.lora is None else "resume.adapters"
        weights = book.line(MemoryPart.CHECKPOINT, name, per=ranks)
        return _larger((weights,), (shard,))
    if job.strategy.is_fsdp:
        is_full = job.save in {SaveMode.FULL, SaveMode.TRAINER} and not job.fsdp_sharded
        full = "resume.fsdp_full" if job.lora is None else "resume.fsdp_adapters"
        return (_line(book, full if is_full else "resume.fsdp_sharded"),)
    return (book.line(MemoryPart.CHECKPOINT, "resume.ddp", per=ranks),)
