"""The report of a plan: findings, peaks, phases with every line's formula, changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envguard.facts.report import Report, make_report
from envguard.facts.sentences import say
from envguard.memory.changes import SweepRow, TriedChange, sweep, try_changes
from envguard.memory.formulas import job_symbols
from envguard.memory.job import Job, Placement, Strategy
from envguard.memory.plan import (
    GIB,
    Measured,
    MemoryLimits,
    MemoryPlan,
    PhasePlan,
    Planner,
    Side,
    calibrate,
    plan_memory,
)
from envguard.memory.plan_findings import plan_findings
from envguard.memory.verdict import Dependence, Grade, Judgement, fits, grade, judge, usable
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.facts.facts import Facts
    from envguard.matrix.memory import Amount, MemoryTable
    from envguard.memory.formulas import Line
    from envguard.memory.job_request import ResolvedJob


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
        Estimate(
            row.tool,
            "",
            None,
            None,
            say("says {claim}; in truth {reality}", claim=row.claim, reality=row.reality),
        )
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
    offloads = job.optimizer_on is not Placement.GPU
    if job.strategy is Strategy.ZERO2:
        return "ds_zero2_offload_optimizer_cpu" if offloads else "ds_zero2_no_offload"
    if job.strategy is not Strategy.ZERO3:
        return None
    init = "zero_init" if job.zero.zero_init else "no_zero_init"
    if job.params_on is not Placement.GPU:
        return f"ds_zero3_offload_param_and_optimizer_{init}"
    return f"ds_zero3_offload_optimizer_{init}" if offloads else f"ds_zero3_no_offload_{init}"


@dataclass(frozen=True, slots=True)
class Extras:
    """What else is asked for.

    Args:
        has_sweep: Every strategy side by side.
        has_estimators: Other estimators beside the plan.
        measured: Peaks of a run of the same job, to scale the plan to.
    """

    has_sweep: bool = False
    has_estimators: bool = False
    measured: Measured | None = None


def plan_report(
    resolved: ResolvedJob,
    table: MemoryTable,
    limits: MemoryLimits,
    facts: Facts,
    *,
    matrix_version: str,
    cause_order: tuple[str, ...],
    extras: Extras | None = None,
) -> Report:
    """Plan a job and report it.

    Args:
        resolved: The job, with what was assumed.
        table: The formulas.
        limits: The machine's.
        facts: What is known of the machine.
        matrix_version: For the envelope.
        cause_order: Causes, the most fundamental first.
        extras: What else is asked for.
    """
    job, wanted = resolved.job, extras or Extras()
    planner = _planner(job, table, limits, wanted.measured)
    plan = planner.plan(job, limits)
    tried = () if fits(plan, limits) else try_changes(planner, limits, plan)
    judgement = judge(planner, plan, limits)
    body = _body(plan, judgement, limits, table)
    body["changes"] = [_change(item) for item in tried]
    body["assumptions"] = list(resolved.assumptions)
    body["calibration"] = list(planner.calibration.words)
    if wanted.has_sweep:
        body["sweep"] = [_sweep_row(row) for row in sweep(planner, job, limits)]
    if wanted.has_estimators:
        body["estimators"] = [_estimate(row) for row in other_estimates(job, table)]
    return make_report(
        "plan",
        facts,
        plan_findings(plan, limits, judgement, tried, table),
        matrix_version=matrix_version,
        cause_order=cause_order,
        notes=(*resolved.notes, *planner.calibration.words),
        extra=body,
    )


def _planner(
    job: Job, table: MemoryTable, limits: MemoryLimits, measured: Measured | None
) -> Planner:
    if measured is None:
        return Planner(table)
    return Planner(table, calibrate(plan_memory(job, table, limits), measured))


def _body(
    plan: MemoryPlan, judgement: Judgement, limits: MemoryLimits, table: MemoryTable
) -> dict[str, Any]:
    gpu, host = plan.peak(Side.GPU), plan.peak(Side.HOST)
    return {
        "peaks": {
            "gpu_gib_per_rank": gib(gpu.gpu.total.likely),
            "host_gib_per_node": gib(host.host.total.likely),
            "phase_of_gpu_peak": gpu.phase.value,
            "phase_of_host_peak": host.phase.value,
        },
        "breaks_first": _first_break(judgement),
        "depends": [_dependence(item) for item in judgement.depends],
        "phases": [_phase(phase, plan, judgement, limits, table) for phase in plan.phases],
        "limits": _limits(limits),
        "job": job_document(plan.job),
    }


def gib(size: float | None) -> float | None:
    """Bytes as GiB with two decimals; None stays None."""
    return None if size is None else round(size / GIB, 2)


def _range(amount: Amount) -> dict[str, float | None]:
    return {"low": gib(amount.low), "likely": gib(amount.likely), "high": gib(amount.high)}


def _first_break(judgement: Judgement) -> dict[str, Any] | None:
    if not judgement.breaks:
        return None
    first = judgement.breaks[0]
    return {"phase": first.phase.value, "side": first.side.value, "cause": first.cause}


def _dependence(item: Dependence) -> dict[str, Any]:
    return {
        "phase": item.phase.value,
        "side": item.side.value,
        "options": [option.value for option in item.options],
        "fits": {"with": list(item.fitting.words), "gib": gib(item.fitting.need)},
        "breaks": {"with": list(item.breaking.words), "gib": gib(item.breaking.need)},
    }


def _phase(
    phase: PhasePlan,
    plan: MemoryPlan,
    judgement: Judgement,
    limits: MemoryLimits,
    table: MemoryTable,
) -> dict[str, Any]:
    def graded(side: Side) -> str:
        if judgement.depends_on(side, phase.phase):
            return Grade.DEPENDS.value
        return grade(phase.stack(side), usable(limits, side)).value

    return {
        "phase": phase.phase.value,
        "is_part_of_run": phase in plan.run,
        "gpu_gib_per_rank": _range(phase.gpu.total),
        "host_gib_per_node": _range(phase.host.total),
        "gpu": graded(Side.GPU),
        "host": graded(Side.HOST),
        "lines": [_line(line, side, table) for side in Side for line in phase.stack(side).lines],
    }


def _line(line: Line, side: Side, table: MemoryTable) -> dict[str, Any]:
    formula = table.formula(line.formula.split(" ")[0])
    return {
        "side": side.value,
        "part": line.part.value,
        "gib": _range(line.amount),
        "formula": line.formula,
        "expression": formula.expr.text,
        "what": line.what,
        "evidence": formula.evidence.value,
        "source": formula.provenance.source.url,
        "is_firm": line.is_firm,
        "is_reclaimable": line.is_reclaimable,
    }


def _limits(limits: MemoryLimits) -> dict[str, Any]:
    return {
        "gpu_gib": gib(limits.gpu_total),
        "gpu_usable_gib": gib(limits.gpu_usable),
        "host_gib": gib(limits.host_total),
        "host_usable_gib": gib(limits.host_usable),
        "host_kind": limits.host_kind,
    }


def job_document(job: Job) -> dict[str, Any]:
    """A job for people and programs."""
    return {
        "model": job.shape.name,
        "parameters": job.shape.params,
        "trainable": job.trainable,
        "is_guess": job.shape.is_guess,
        "fields_used": list(job.shape.fields),
        "strategy": job.strategy.value,
        "gpus": job.gpus,
        "nodes": job.nodes,
        "dtype": job.precision.value,
        "optimizer": job.optimizer.value,
        "optimizer_on": job.optimizer_on.value,
        "parameters_on": job.params_on.value,
        "micro_batch": job.micro_batch,
        "seq_len": job.seq_len,
        "recompute": job.recompute.value,
        "attention": job.attention.value,
        "lora_rank": job.lora.rank if job.lora else None,
        "quantized": job.quantized.value if job.quantized else None,
        "save": job.save.value,
        "resumes": job.resumes,
    }


def _change(tried: TriedChange) -> dict[str, Any]:
    gpu, host = tried.plan.peak(Side.GPU), tried.plan.peak(Side.HOST)
    return {
        "change": tried.change.words,
        "option": tried.change.option,
        "cost": tried.change.cost,
        "fits": tried.is_enough,
        "gpu_gib_per_rank": gib(gpu.gpu.total.likely),
        "host_gib_per_node": gib(host.host.total.likely),
    }


def _sweep_row(row: SweepRow) -> dict[str, Any]:
    gpu, host = row.plan.peak(Side.GPU), row.plan.peak(Side.HOST)
    return {
        "strategy": row.name,
        "gpu_gib_per_rank": gib(gpu.gpu.total.likely),
        "phase_of_gpu_peak": gpu.phase.value,
        "host_gib_per_node": gib(host.host.total.likely),
        "phase_of_host_peak": host.phase.value,
        "breaks": [f"{found.side.value} in {found.phase.value}" for found in row.breaks],
    }


def _estimate(row: Estimate) -> dict[str, Any]:
    return {
        "tool": row.tool,
        "formula": row.formula,
        "gpu_gib_per_rank": gib(row.gpu),
        "host_gib_per_node": gib(row.host),
        "why": row.why,
    }
