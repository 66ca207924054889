"""What other estimators say of the same job, beside the plan, and why they mislead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.memory.job import Job, Place, Strategy
from envguard.memory.symbols import job_symbols

if TYPE_CHECKING:
    from envguard.matrix.memory_table import MemoryTable


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one estimator gives.

    Args:
        tool: Its name.
        formula: Id of the formula in the table, or empty where only its claim is known.
        gpu: Bytes of one GPU; None where it says nothing.
        host: Bytes of one node, likewise.
        why: Why it misleads.
    """

    tool: str
    formula: str
    gpu: float | None
    host: float | None
    why: str


def other_estimates(job: Job, table: MemoryTable) -> tuple[Estimate, ...]:
    """DeepSpeed's own figure for this job where it has one, then the known misleading rules."""
    own = _deepspeed(job, table)
    rules = tuple(
        Estimate(row.tool, "", None, None, f"says {row.claim}; in truth {row.reality}")
        for row in table.wrong_estimators
    )
    return (*((own,) if own else ()), *rules)


def _deepspeed(job: Job, table: MemoryTable) -> Estimate | None:
    name = _function(job)
    if name is None:
        return None
    symbols = job_symbols(job, table)
    return Estimate(
        tool="DeepSpeed estimate_" + name.removeprefix("ds_"),
        formula=name,
        gpu=table.formula(f"{name}.gpu").evaluate(symbols).likely,
        host=table.formula(f"{name}.cpu").evaluate(symbols).likely,
        why="model states only: no activations, buckets, gathered weights, caches or CUDA "
        "context on the GPU, no processes and no save on the host",
    )


def _function(job: Job) -> str | None:
    """The estimator's branch for a job; DeepSpeed has none for ZeRO-1, torch none at all."""
    offloads = job.optimizer_on is not Place.GPU
    if job.strategy is Strategy.ZERO2:
        return "ds_zero2_offload_optimizer_cpu" if offloads else "ds_zero2_no_offload"
    if job.strategy is not Strategy.ZERO3:
        return None
    init = "zero_init" if job.zero.zero_init else "no_zero_init"
    if job.params_on is not Place.GPU:
        return f"ds_zero3_offload_param_and_optimizer_{init}"
    return f"ds_zero3_offload_optimizer_{init}" if offloads else f"ds_zero3_no_offload_{init}"
