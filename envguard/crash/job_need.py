"""Arithmetic: what the job that a log describes needs of host memory, against what there is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.crash.host_figures import last_figure
from envguard.crash.phases import Phase
from envguard.errors import InputError
from envguard.facts.sentences import say
from envguard.memory.job import Strategy
from envguard.memory.job_request import JobRequest, resolve, usual_jobs
from envguard.memory.plan import GIB, MemoryPhase, Planner, Side, limits_of
from envguard.memory.verdict import cause_of
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.memory.job import Job
    from envguard.memory.plan import MemoryLimits

# A need whose highest figure stays below this share of the memory is not what filled it.
_FAR_BELOW = 0.5
_PHASES = {
    Phase.LOAD: MemoryPhase.LOAD,
    Phase.INIT: MemoryPhase.INIT,
    Phase.TRAIN: MemoryPhase.STEP,
    Phase.SAVE: MemoryPhase.SAVE,
    Phase.RESUME: MemoryPhase.RESUME,
}


@dataclass(frozen=True, slots=True)
class JobNeed:
    """What a job needs of host memory in the phase in which it ended.

    Args:
        cause: What needs it, as a slug.
        low_gib: The least that it can be, over all usual values of what is not told.
        likely_gib: The likely figure of the job as it is told.
        high_gib: The most that it can be.
        limit_gib: The host memory there is.
        job: The job in words, for a sentence.
    """

    cause: str
    low_gib: float
    likely_gib: float
    high_gib: float
    limit_gib: float
    job: str

    @property
    def is_beyond(self) -> bool:
        """Even the lowest figure is more than all the memory there is."""
        return self.low_gib > self.limit_gib

    @property
    def is_far_below(self) -> bool:
        """Even the highest figure leaves most of the memory free."""
        return self.high_gib < _FAR_BELOW * self.limit_gib

    @property
    def words(self) -> str:
        """Both figures, for a sentence."""
        return say(
            "{job}: it needs {likely:.0f} GiB of host memory here ({low:.0f} to {high:.0f}), "
            "and there are {limit:.0f} GiB",
            job=self.job,
            likely=self.likely_gib,
            low=self.low_gib,
            high=self.high_gib,
            limit=self.limit_gib,
        )


def find_need(case: Case) -> JobNeed | None:
    """What the job needs; None where model, strategy, ranks or memory are not told."""
    phase = _PHASES.get(case.phase) if case.phase is not None else None
    limit = _limit_gib(case)
    options = _options(case)
    params = _params(case)
    if phase is None or limit is None or options is None or params is None:
        return None
    table = case.matrix.memory
    try:
        job = resolve(JobRequest(params=params, options=options), table).job
    except InputError:  # what the log tells does not hold together
        return None
    limits = limits_of(table, gpu_stated=None, host_stated=limit * GIB, machine=None)
    return _need(job, phase, limits, Planner(table), _job_words(params, options))


def _need(
    job: Job, phase: MemoryPhase, limits: MemoryLimits, planner: Planner, words: str
) -> JobNeed:
    plans = [planner.plan(one, limits) for one in _as_it_may_be(job, planner)]
    totals = [plan.phase(phase).stack(Side.HOST).total for plan in plans]
    limit = limits.host_total or 0.0
    return JobNeed(
        cause=cause_of(plans[0], plans[0].phase(phase), Side.HOST, limit),
        low_gib=min(total.low for total in totals) / GIB,
        likely_gib=totals[0].likely / GIB,
        high_gib=max(total.high for total in totals) / GIB,
        limit_gib=limit / GIB,
        job=words,
    )


def _as_it_may_be(job: Job, planner: Planner) -> Iterator[Job]:
    """The job with the usual values of all that a log does not tell, the likely one first."""
    for one in usual_jobs(job, planner.table):
        yield one
        if one.strategy is Strategy.ZERO3:
            yield replace(one, zero=replace(one.zero, zero_init=not one.zero.zero_init))
            yield replace(one, zero=replace(one.zero, gathers_on_save=not one.zero.gathers_on_save))


def _limit_gib(case: Case) -> float | None:
    """The host memory there is: as facts state it, as a reading gives it, as the text tells."""
    stated = case.facts.machine.limits.host_memory_bytes
    if stated is not None:
        return stated / GIB
    figure = last_figure(case.log)
    if figure is not None and figure.total_gib is not None:
        return figure.total_gib
    told = case.log.last("host-figure-words")
    text = told.groups.get("gb") or told.groups.get("gb2") if told is not None else None
    return float(text) if text else None


def _params(case: Case) -> str | None:
    """The number of parameters, counted by a program before what a model's name says."""
    counted = case.log.last("params-counted")
    if counted is not None:
        return counted.groups["n"].replace(",", "")
    named = case.log.last("params-named")
    return f"{named.groups['n']}B" if named is not None else None


def _options(case: Case) -> dict[str, object] | None:
    """Strategy, ranks and offload as the log tells them; None where it does not."""
    stage = case.log.last("zero-stage")
    number = stage.number("stage", "stage2", "stage3") if stage is not None else None
    if number not in {1, 2, 3} or case.ranks is None:
        return None
    options: dict[str, object] = {"strategy": f"zero{number}", "gpus": case.ranks}
    if case.log.has("offload-words"):
        takes_params = number == 3 and case.log.has("offload-param-words")
        options["offload"] = "param,optimizer" if takes_params else "optimizer"
    if case.log.has("qlora-words"):
        options["qlora"] = True
    elif case.log.has("lora-words"):
        options["lora"] = "rank=16"
    return options


def _job_words(params: str, options: dict[str, object]) -> str:
    offload = options.get("offload")
    return say(
        "a model of {params} parameters under {strategy} on {gpus} GPUs{offload}{lora}",
        params=params,
        strategy=options["strategy"],
        gpus=options["gpus"],
        offload=say(" with offload of {what}", what=offload) if offload else "",
        lora=" with adapters" if {"lora", "qlora"} & options.keys() else "",
    )
