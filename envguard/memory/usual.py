"""What training recipes set where nobody states it: the jobs that a request may mean."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.memory.job import Job, Option, Precision, Recompute, SaveMode
from envguard.memory.validate import is_valid

if TYPE_CHECKING:
    from envguard.matrix.memory_table import MemoryTable


def usual_jobs(job: Job, table: MemoryTable) -> tuple[Job, ...]:
    """A job under every combination of usual values of what is not stated.

    Under DeepSpeed neither fp32 masters nor how transformers' Trainer saves are open.

    Args:
        job: The job with what is assumed.
        table: Holds how short samples usually are.

    Returns:
        The job itself first, then those that differ from it in fewer options.
    """
    jobs = [job]
    for option in (o for o in Option if o in job.unstated):
        jobs = [changed for base in jobs for changed in _usual(base, option, table)]
    others = dict.fromkeys(other for other in jobs if other != job and is_valid(other))
    return (job, *sorted(others, key=lambda other: len(differing(job, other))))


def _usual(job: Job, option: Option, table: MemoryTable) -> tuple[Job, ...]:
    match option:
        case Option.RECOMPUTE:
            return tuple(replace(job, recompute=r) for r in (Recompute.NONE, Recompute.FULL))
        case Option.SEQ_LEN:
            shortest = int(table.formula("usual.shortest_sample").evaluate({}).likely)
            return (job, replace(job, seq_len=min(job.seq_len, shortest)))
        case Option.PRECISION:
            return (job, replace(job, precision=Precision.PURE_BF16))
        case Option.SAVE:  # accelerate writes FSDP's state dicts whole or as shards
            is_open = job.strategy.is_fsdp and not job.fsdp_sharded
            return (job, replace(job, save=SaveMode.SHARDED)) if is_open else (job,)


def differing(job: Job, other: Job) -> tuple[Option, ...]:
    """The options in which two jobs differ."""
    return tuple(o for o in Option if option_words(job, o) != option_words(other, o))


def option_words(job: Job, option: Option) -> str:
    """The option as a person would state it, ``--recompute full``."""
    return f"{option.value} {_value(job, option)}"


def _value(job: Job, option: Option) -> str:
    match option:
        case Option.RECOMPUTE:
            return job.recompute.value
        case Option.SEQ_LEN:
            return str(job.seq_len)
        case Option.PRECISION:
            return job.precision.value
        case Option.SAVE:
            return job.save.value
