"""Host memory that a checkpoint takes on top, when it is written and when it is read back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.memory.job import SaveMode, Strategy
from envguard.memory.lines import Book, Line, Part, Stack, largest

if TYPE_CHECKING:
    from envguard.memory.job import Job

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
    return book.line(Part.CHECKPOINT, formula)


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
        shard = book.line(Part.CHECKPOINT, "resume.optimizer_shard", per=ranks)
        if job.strategy is Strategy.ZERO3:
            return (shard,)
        weights = book.line(Part.CHECKPOINT, "resume.model_states", per=ranks)
        return _larger((weights,), (shard,))
    if job.strategy.is_fsdp:
        is_full = job.save in {SaveMode.FULL, SaveMode.TRAINER} and not job.fsdp_sharded
        return (_line(book, "resume.fsdp_full" if is_full else "resume.fsdp_sharded"),)
    return (book.line(Part.CHECKPOINT, "resume.ddp", per=ranks),)
