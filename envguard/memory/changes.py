"""Single changes to a job or its machine, and other strategies: which of them fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.facts.sentences import say
from envguard.memory.job import (
    Job,
    JobOption,
    Loss,
    Optimizer,
    Placement,
    Recompute,
    SaveMode,
    Strategy,
)
from envguard.memory.job_request import is_valid
from envguard.memory.plan import GIB, MemoryLimits, MemoryPlan, limits_of
from envguard.memory.verdict import Overrun, find_overruns, fits
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.matrix.memory import MemoryTable
    from envguard.memory.plan import Planner


_HOST_SIZES = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
_GPU_SIZES = (24, 32, 40, 48, 80, 96, 141, 192, 288)


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Args:
        cost: Rank of what it costs: 1 is a setting, 9 is hardware.
        words: For people.
        option: What to state to have it planned.
        job: The changed job.
        limits: The changed machine.
    """

    cost: int
    words: str
    option: str
    job: Job
    limits: MemoryLimits


@dataclass(frozen=True, slots=True)
class TriedChange:
    """A change with the plan that it leads to."""

    change: Change
    plan: MemoryPlan
    is_enough: bool


def try_changes(
    planner: Planner, limits: MemoryLimits, plan: MemoryPlan
) -> tuple[TriedChange, ...]:
    """Plan every single change.

    Args:
        planner: Plans the changed jobs.
        limits: The machine's.
        plan: The plan of the job that does not fit.

    Returns:
        Those that are enough, cheapest first; where none is, all that lower the broken peak.
    """
    tried = []
    for change in _candidates(planner.table, limits, plan):
        changed = planner.plan(change.job, change.limits)
        tried.append(TriedChange(change, changed, fits(changed, change.limits)))
    enough = sorted((t for t in tried if t.is_enough), key=lambda t: t.change.cost)
    return tuple(enough or sorted(tried, key=lambda t: t.change.cost))


def _candidates(table: MemoryTable, limits: MemoryLimits, plan: MemoryPlan) -> Iterator[Change]:
    for cost, words, option, changed in _job_changes(plan.job):
        if is_valid(changed):
            yield Change(cost, words, option, changed, limits)
    yield from _hardware(table, limits, plan)


Candidate = tuple[int, str, str, Job]


def _job_changes(job: Job) -> Iterator[Candidate]:
    yield from _save_changes(job)
    yield from _version_changes(job)
    yield from _compute_changes(job)
    yield from _sharding_changes(job)
    yield from _offload_changes(job)
    if job.ranks_per_node % 2 == 0:
        words = f"{job.nodes * 2} nodes of {job.ranks_per_node // 2} GPUs"
        yield 7, words, f"--nodes {job.nodes * 2}", replace(job, nodes=job.nodes * 2)
    nodes = job.nodes * 2 if job.ranks_per_node >= 8 else job.nodes
    doubled = replace(job, gpus=job.gpus * 2, nodes=nodes)
    yield 8, f"{job.gpus * 2} GPUs", f"--gpus {job.gpus * 2} --nodes {nodes}", doubled


_SAVE_WORDS = {
    SaveMode.HALF: "save 16-bit weights from rank 0 only",
    SaveMode.SHARDED: "save shards, each rank its own",
    SaveMode.DCP_ASYNC: "save shards asynchronously",
    SaveMode.TRAINER: "save as transformers' Trainer does",
}


def _save_changes(job: Job) -> Iterator[Candidate]:
    for mode, words in _SAVE_WORDS.items():
        if mode is not job.save:
            yield 1, words, f"--save {mode.value}", replace(job, save=mode)
    if job.strategy.is_fsdp and not job.fsdp_efficient_load:
        yield 1, "cpu_ram_efficient_loading true", "", replace(job, fsdp_efficient_load=True)
    if job.strategy is Strategy.ZERO3 and not job.zero.zero_init:
        zero = replace(job.zero, zero_init=True)
        yield 1, "build the model under zero.Init", "", replace(job, zero=zero)


def _version_changes(job: Job) -> Iterator[Candidate]:
    newer = Version("0.18.7")
    if job.strategy.is_deepspeed and job.versions.deepspeed < newer:
        versions = replace(job.versions, deepspeed=newer)
        yield (
            2,
            f"deepspeed {newer} or newer",
            f"--deepspeed {newer}",
            replace(job, versions=versions),
        )
    if job.versions.transformers.major < 5:
        versions = replace(job.versions, transformers=Version("5.0"))
        yield 2, "transformers 5", "--transformers 5.0", replace(job, versions=versions)


def _compute_changes(job: Job) -> Iterator[Candidate]:
    if job.recompute is not Recompute.FULL:
        unstated = job.unstated - {JobOption.RECOMPUTE}
        changed = replace(job, recompute=Recompute.FULL, unstated=unstated)
        yield 2, "activation checkpointing", "--recompute full", changed
    if job.loss is not Loss.FUSED:
        yield 3, "a fused cross entropy", "--loss fused", replace(job, loss=Loss.FUSED)
    batch = job.micro_batch
    while batch > 1:
        batch //= 2
        yield 3, f"micro-batch {batch}", f"--micro-batch {batch}", replace(job, micro_batch=batch)
    if job.optimizer in {Optimizer.ADAMW, Optimizer.ADAMW_FUSED, Optimizer.ADAMW_FOREACH}:
        unstated = job.unstated - {JobOption.OPTIMIZER}
        changed = replace(job, optimizer=Optimizer.ADAMW_8BIT, unstated=unstated)
        yield 4, "8-bit AdamW", "--optimizer adamw-8bit", changed


_NEXT: dict[Strategy, tuple[Strategy, ...]] = {
    Strategy.DDP: (Strategy.ZERO2, Strategy.ZERO3, Strategy.FSDP_FULL),
    Strategy.ZERO1: (Strategy.ZERO2, Strategy.ZERO3),
    Strategy.ZERO2: (Strategy.ZERO3,),
    Strategy.ZERO3: (),
    Strategy.FSDP_GRAD_OP: (Strategy.FSDP_FULL,),
    Strategy.FSDP_HYBRID: (Strategy.FSDP_FULL,),
    Strategy.FSDP_FULL: (),
}


def _sharding_changes(job: Job) -> Iterator[Candidate]:
    for strategy in _NEXT[job.strategy]:
        words, option = f"{strategy.value}", f"--strategy {strategy.value}"
        yield 5, words, option, replace(job, strategy=strategy)


def _offload_changes(job: Job) -> Iterator[Candidate]:
    if job.optimizer_on is Placement.CPU and job.zero.pins_memory and job.strategy.is_deepspeed:
        zero = replace(job.zero, pins_memory=False)
        yield 4, "pin_memory false in the offload sections", "", replace(job, zero=zero)
    if job.optimizer_on is not Placement.GPU:
        changed = replace(job, optimizer_on=Placement.GPU, params_on=Placement.GPU)
        yield 6, "no offload", "--offload none", changed
    if job.optimizer_on is Placement.GPU:
        changed = replace(job, optimizer_on=Placement.CPU)
        yield 6, "offload optimizer states", "--offload optimizer", changed
    if job.params_on is Placement.GPU:
        changed = replace(job, optimizer_on=Placement.CPU, params_on=Placement.CPU)
        yield 6, "offload weights and optimizer states", "--offload param,optimizer", changed
    if job.optimizer_on is Placement.CPU and job.strategy.is_deepspeed:
        params_on = Placement.NVME if job.params_on is Placement.CPU else job.params_on
        changed = replace(job, optimizer_on=Placement.NVME, params_on=params_on)
        yield 7, "offload to NVMe", "--offload-device nvme", changed


def _hardware(table: MemoryTable, limits: MemoryLimits, plan: MemoryPlan) -> Iterator[Change]:
    """The smallest usual sizes that hold the plan."""
    for size in _HOST_SIZES:
        if limits.host_total is not None and size * GIB > limits.host_total:
            larger = _with_host(table, limits, size)
            if _holds(plan, larger, host=True):
                words, option = say("{size} GiB of host memory", size=size), f"--host-memory {size}"
                yield Change(8, words, option, plan.job, larger)
                break
    for size in _GPU_SIZES:
        if limits.gpu_total is not None and size * GIB > limits.gpu_total:
            larger = _with_gpu(table, limits, size)
            if _holds(plan, larger, host=False):
                words, option = say("GPUs of {size} GiB", size=size), f"--gpu-memory {size}"
                yield Change(9, words, option, plan.job, larger)
                break


def _with_host(table: MemoryTable, limits: MemoryLimits, size: int) -> MemoryLimits:
    stated = limits_of(table, gpu_stated=None, host_stated=size * GIB, machine=None)
    return replace(
        limits,
        host_total=stated.host_total,
        host_usable=stated.host_usable,
        host_kind=stated.host_kind,
    )


def _with_gpu(table: MemoryTable, limits: MemoryLimits, size: int) -> MemoryLimits:
    stated = limits_of(table, gpu_stated=size * GIB, host_stated=None, machine=None)
    return replace(limits, gpu_total=stated.gpu_total, gpu_usable=stated.gpu_usable)


def _holds(plan: MemoryPlan, limits: MemoryLimits, *, host: bool) -> bool:
    """Whether this side alone holds; the other may still break."""
    side = replace(limits, gpu_usable=None) if host else replace(limits, host_usable=None)
    return fits(plan, side)


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One strategy.

    Args:
        name: Strategy and offload.
        plan: Its plan.
        breaks: What does not fit.
    """

    name: str
    plan: MemoryPlan
    breaks: tuple[Overrun, ...]


def sweep(planner: Planner, job: Job, limits: MemoryLimits) -> tuple[SweepRow, ...]:
    """Plan a job under every strategy and offload that it can have.

    Args:
        planner: Plans the variants.
        job: The job.
        limits: The machine's.
    """
    rows = []
    for name, changed in _variants(job):
        plan = planner.plan(changed, limits)
        rows.append(SweepRow(name, plan, find_overruns(plan, limits)))
    return tuple(rows)


def _variants(job: Job) -> Iterator[tuple[str, Job]]:
    for strategy in Strategy:
        for words, optimizer_on, params_on in _PLACES:
            changed = replace(
                job, strategy=strategy, optimizer_on=optimizer_on, params_on=params_on
            )
            if not is_valid(changed):  # a save mode of another framework
                changed = replace(changed, save=SaveMode.TRAINER)
            if is_valid(changed):
                yield f"{strategy.value}{words}", changed


_PLACES = (
    ("", Placement.GPU, Placement.GPU),
    (" + optimizer offload", Placement.CPU, Placement.GPU),
    (" + full offload", Placement.CPU, Placement.CPU),
)
