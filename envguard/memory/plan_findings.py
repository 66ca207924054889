"""Findings of a plan: what breaks, what is tight, what could not be judged, what fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.sentences import join_sentences, say
from envguard.memory.plan import GIB, MemoryPhase, MemoryPlan, Side
from envguard.memory.verdict import Grade, Overrun, grade, offloads_to_host, usable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.findings import Source
    from envguard.matrix.memory import MemoryTable
    from envguard.memory.changes import TriedChange
    from envguard.memory.formulas import Stack
    from envguard.memory.plan import MemoryLimits
    from envguard.memory.verdict import Judgement


_CODES = {
    "gpu-oom-states-plus-activations": "MEM001",
    "gpu-oom-zero2-full-params": "MEM002",
    "host-oom-load": "MEM003",
    "host-oom-per-rank-load": "MEM004",
    "host-oom-optimizer-offload": "MEM005",
    "host-oom-save": "MEM006",
    "host-oom-rank0-gather": "MEM007",
    "host-oom-resume": "MEM008",
}
_TIGHT, _GROWTH, _NOT_JUDGED, _NOTHING, _FITS = "MEM009", "MEM010", "MEM011", "MEM012", "MEM013"
_DEPENDS, _UNMODELLED = "MEM014", "MEM015"

# Public runs with offloaded states grew this far beyond what they began with.
_GROWTH_FACTOR = 1.4
_WORDS = {
    "gpu-oom-states-plus-activations": "model states, gathered weights and activations together",
    "gpu-oom-zero2-full-params": "every GPU keeps the whole weights; sharding them would do",
    "host-oom-load": "reading the checkpoint takes more host memory than there is",
    "host-oom-per-rank-load": "every rank of a node holds a whole copy of the weights on the host",
    "host-oom-optimizer-offload": "offloaded states and their page-locked buffers",
    "host-oom-save": "every copy that the checkpoint makes stands in host memory at once",
    "host-oom-rank0-gather": "rank 0 gathers the weights of all ranks in host memory",
    "host-oom-resume": "every rank reads its part of the checkpoint into host memory",
}
_NAMES = {Side.GPU: "GPU memory", Side.HOST: "host memory"}


def plan_findings(
    plan: MemoryPlan,
    limits: MemoryLimits,
    judgement: Judgement,
    tried: tuple[TriedChange, ...],
    table: MemoryTable,
) -> tuple[Finding, ...]:
    """All findings of a plan.

    Args:
        plan: The plan.
        limits: The machine's.
        judgement: What breaks, and what depends on options that are not stated.
        tried: Changes that were tried, cheapest first.
        table: For the sources of formulas.
    """
    if limits.gpu_usable is None and limits.host_usable is None:
        return (_nothing_to_judge(plan),)
    found = [*_broken(plan, judgement.breaks, tried, table), *_depending(plan, judgement, tried)]
    found += [*_tight(plan, limits, judgement.sides), *_resume(plan, limits)]
    found += _growth(plan, limits, judgement.breaks)
    found += _unmodelled(plan)
    if not any(finding.status is not Status.SKIP for finding in found):
        found.append(_fitting(plan, limits))
    return (*found, *_not_judged(plan, limits))


def _unmodelled(plan: MemoryPlan) -> Iterator[Finding]:
    """What no formula gives makes a plan that fits unknown: the figures are without it."""
    if plan.job.unmodelled:
        yield Finding(
            code=_UNMODELLED,
            cause="memory-plan",
            status=Status.UNKNOWN,
            title=say("not modelled: {what}", what=", ".join(plan.job.unmodelled)),
            detail="The figures are without it, so a plan that fits says nothing; measure with "
            "`envguard run` for some steps and a save.",
        )


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"


def _broken(
    plan: MemoryPlan,
    breaks: tuple[Overrun, ...],
    tried: tuple[TriedChange, ...],
    table: MemoryTable,
) -> Iterator[Finding]:
    """One finding a cause; the first of its phases gives the figures."""
    for cause in dict.fromkeys(found.cause for found in breaks):
        same = [found for found in breaks if found.cause == cause]
        first = same[0]
        stack = plan.phase(first.phase).stack(first.side)
        yield Finding(
            code=_CODES[cause],
            cause=cause,
            status=Status.FAIL,
            title=say(
                "{memory} breaks in {phases}: {need} needed, {limit} usable",
                memory=_NAMES[first.side],
                phases=_phases(same),
                need=_gib(first.need),
                limit=_gib(first.limit),
            ),
            detail=say(
                "{meaning}. {largest_parts}",
                meaning=_WORDS[cause],
                largest_parts=_largest_words(stack),
            ),
            evidence=_evidence(stack, first.phase),
            remedy=_remedy(tried),
            source=_source(stack, table),
        )


def _depending(
    plan: MemoryPlan, judgement: Judgement, tried: tuple[TriedChange, ...]
) -> Iterator[Finding]:
    """One finding a side: both figures, and the options between them.

    A plan that fits as assumed is warned of; whether one that breaks as assumed fits, is not known.
    """
    for side in Side:
        found = next((d for d in judgement.depends if d.side is side), None)
        if found is None:
            continue
        breaking, fitting = found.breaking, found.fitting
        stack = plan.phase(found.phase).stack(side)
        yield Finding(
            code=_DEPENDS,
            cause="memory-plan",
            status=Status.UNKNOWN if found.breaks_as_assumed else Status.WARN,
            title=say(
                "{memory} in {phase} depends on what is not stated: {high} with "
                "{worst_case}, {low} with {best_case}, {limit} usable",
                memory=_NAMES[side],
                phase=found.phase.value,
                high=_gib(breaking.need),
                worst_case=" ".join(breaking.words),
                low=_gib(fitting.need),
                best_case=" ".join(fitting.words),
                limit=_gib(found.limit),
            ),
            detail=say(
                "State {options} for a verdict. {largest_parts}",
                options=" and ".join(option.value for option in found.options),
                largest_parts=_largest_words(stack),
            ),
            evidence=_evidence(stack, found.phase),
            remedy=_remedy(tried) if tried else None,
        )


def _phases(breaks: list[Overrun]) -> str:
    return ", ".join(found.phase.value for found in breaks)


def _largest_words(stack: Stack) -> str:
    lines = sorted(stack.lines, key=lambda line: -line.amount.likely)[:3]
    parts = [
        say(
            "{part} {size} ({formula})",
            part=line.part.value,
            size=_gib(line.amount.likely),
            formula=line.formula,
        )
        for line in lines
    ]
    return say("Largest: {parts}.", parts=join_sentences(*parts, by=", "))


def _evidence(stack: Stack, phase: MemoryPhase) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(f"{phase.value}.{line.part.value}", _gib(line.amount.likely), line.formula)
        for line in stack.lines
    )


def _source(stack: Stack, table: MemoryTable) -> Source:
    largest = max(stack.lines, key=lambda line: line.amount.likely)
    return table.formula(largest.formula.split(" ")[0]).provenance.source


def _remedy(tried: tuple[TriedChange, ...]) -> Remedy:
    enough = [t for t in tried if t.is_enough]
    if not enough:
        return Remedy("no single change that was tried is enough; see the changes for their peaks")
    words = [
        say("{change} (host {host}, GPU {gpu})", change=t.change.words, host=_host(t), gpu=_gpu(t))
        for t in enough[:3]
    ]
    return Remedy(
        say("cheapest single changes that fit: {changes}", changes=join_sentences(*words, by="; "))
    )


def _host(tried: TriedChange) -> str:
    return _gib(tried.plan.peak(Side.HOST).host.total.likely)


def _gpu(tried: TriedChange) -> str:
    return _gib(tried.plan.peak(Side.GPU).gpu.total.likely)


def _tight(plan: MemoryPlan, limits: MemoryLimits, told: frozenset[Side]) -> Iterator[Finding]:
    """Other sides that may break where the evidence is a range."""
    for side in Side:
        limit = usable(limits, side)
        if side in told or limit is None:
            continue
        tight = [p for p in plan.run if grade(p.stack(side), limit) is Grade.TIGHT]
        if not tight:
            continue
        worst = max(tight, key=lambda p: p.stack(side).total.high)
        total = worst.stack(side).total
        yield Finding(
            code=_TIGHT,
            cause="memory-plan",
            status=Status.WARN,
            title=say(
                "{memory} may not do in {phase}: {likely} is likely, up to {high} possible, "
                "{limit} usable",
                memory=_NAMES[side],
                phase=worst.phase.value,
                likely=_gib(total.likely),
                high=_gib(total.high),
                limit=_gib(limit),
            ),
            detail=say("{widest_ranges}", widest_ranges=_wide_words(worst.stack(side))),
        )


def _wide_words(stack: Stack) -> str:
    wide = [n for n in stack.lines if _gib(n.amount.low) != _gib(n.amount.high)]
    lines = sorted(wide, key=lambda n: n.amount.likely - n.amount.high)[:2]
    parts = [
        say(
            "{part} {low} to {high} ({formula})",
            part=n.part.value,
            low=_gib(n.amount.low),
            high=_gib(n.amount.high),
            formula=n.formula,
        )
        for n in lines
    ]
    return say("Widest ranges: {parts}.", parts=join_sentences(*parts, by=", ")) if parts else ""


def _resume(plan: MemoryPlan, limits: MemoryLimits) -> Iterator[Finding]:
    """A resume is another run: where it would break, this one is only warned."""
    if plan.job.resumes or limits.host_usable is None:
        return
    stack = plan.phase(MemoryPhase.RESUME).host
    if grade(stack, limits.host_usable) is Grade.BREAKS:
        yield Finding(
            code=_CODES["host-oom-resume"],
            cause="host-oom-resume",
            status=Status.WARN,
            title=say(
                "a run that resumes from this checkpoint would need {need} of host memory, "
                "{limit} are usable",
                need=_gib(stack.total.likely),
                limit=_gib(limits.host_usable),
            ),
            detail=say(
                "{meaning}. {largest_parts}",
                meaning=_WORDS["host-oom-resume"],
                largest_parts=_largest_words(stack),
            ),
            evidence=_evidence(stack, MemoryPhase.RESUME),
        )


def _growth(
    plan: MemoryPlan, limits: MemoryLimits, breaks: tuple[Overrun, ...]
) -> Iterator[Finding]:
    limit = limits.host_usable
    if limit is None or not offloads_to_host(plan) or any(b.side is Side.HOST for b in breaks):
        return
    need = plan.phase(MemoryPhase.STEP).host.total.likely
    if need * _GROWTH_FACTOR > limit:
        yield Finding(
            code=_GROWTH,
            cause="host-oom-growth",
            status=Status.WARN,
            title=say(
                "offloaded states leave little room to grow: {need} of {limit}",
                need=_gib(need),
                limit=_gib(limit),
            ),
            detail="Host memory of offloaded runs was seen to grow by up to 40 % in the first "
            "steps (page-locked caches, data workers); this plan has no formula for it.",
        )


def _not_judged(plan: MemoryPlan, limits: MemoryLimits) -> Iterator[Finding]:
    for side, option in ((Side.GPU, "--gpu-memory"), (Side.HOST, "--host-memory")):
        if usable(limits, side) is None:
            worst = plan.peak(side)
            yield Finding(
                code=_NOT_JUDGED,
                cause="memory-plan",
                status=Status.SKIP,
                title=say(
                    "{memory} is not judged: its size is not known ({option}); {need} is "
                    "needed in {phase}",
                    memory=_NAMES[side],
                    option=option,
                    need=_gib(worst.stack(side).total.likely),
                    phase=worst.phase.value,
                ),
            )


def _nothing_to_judge(plan: MemoryPlan) -> Finding:
    gpu, host = plan.peak(Side.GPU), plan.peak(Side.HOST)
    return Finding(
        code=_NOTHING,
        cause="memory-plan",
        status=Status.UNKNOWN,
        title="no limit to hold the plan against: state --gpu-memory and --host-memory",
        detail=say(
            "Needed: {gpu_need} a GPU in {gpu_phase}, {host_need} a node in {host_phase}.",
            gpu_need=_gib(gpu.gpu.total.likely),
            gpu_phase=gpu.phase.value,
            host_need=_gib(host.host.total.likely),
            host_phase=host.phase.value,
        ),
    )


def _fitting(plan: MemoryPlan, limits: MemoryLimits) -> Finding:
    parts = []
    for side in Side:
        limit = usable(limits, side)
        if limit is not None:
            worst = plan.peak(side)
            need = worst.stack(side).total.likely
            parts.append(
                say(
                    "{memory} {need} of {limit} in {phase}",
                    memory=_NAMES[side],
                    need=_gib(need),
                    limit=_gib(limit),
                    phase=worst.phase.value,
                )
            )
    return Finding(
        code=_FITS,
        cause="memory-plan",
        status=Status.OK,
        title=say("all phases fit: {parts}", parts=join_sentences(*parts, by=", ")),
    )
