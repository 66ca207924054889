"""What holds for every job: more GPUs, more sharding, less saving never cost more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from envguard.memory.formulas import MemoryPart
from envguard.memory.job import (
    Job,
    JobOption,
    Lora,
    Loss,
    Method,
    Optimizer,
    Placement,
    Recompute,
    SaveMode,
    Strategy,
)
from envguard.memory.job_request import is_valid
from envguard.memory.plan import MemoryPhase, Side
from tests.memory.jobs import job, plan

_STATES = {MemoryPart.WEIGHTS, MemoryPart.GRADIENTS, MemoryPart.MASTER, MemoryPart.OPTIMIZER}
PARAMS = st.floats(min_value=1e8, max_value=5e11)
GPUS = st.sampled_from([1, 2, 4, 8])
SHARDED = st.sampled_from(["zero1", "zero2", "zero3", "fsdp-full", "fsdp-grad-op"])


def states(wanted: Job) -> float:
    """Bytes of model states that one GPU holds between steps."""
    stack = plan(wanted).phase(MemoryPhase.SAVE).gpu
    return sum(line.amount.likely for line in stack.lines if line.part in _STATES)


@given(PARAMS, GPUS, SHARDED)
@settings(max_examples=60, deadline=None)
def test_more_gpus_never_raise_the_states_of_a_rank(
    params: float, gpus: int, strategy: str
) -> None:
    few, many = job(strategy, gpus, params), job(strategy, gpus * 2, params)
    assert states(many) <= states(few)


@given(PARAMS, GPUS)
@settings(max_examples=60, deadline=None)
def test_a_higher_stage_never_raises_the_states_of_a_rank(params: float, gpus: int) -> None:
    sizes = [states(job(name, gpus, params)) for name in ("zero1", "zero2", "zero3")]
    assert sizes[1] <= sizes[0]
    # stage 3 keeps a flat buffer of 16-bit gradients between steps, two bytes a parameter
    assert sizes[2] <= sizes[1] + 2 * params / gpus


@given(PARAMS, GPUS, SHARDED)
@settings(max_examples=60, deadline=None)
def test_a_sharded_save_never_exceeds_a_full_one(params: float, gpus: int, strategy: str) -> None:
    full = plan(job(strategy, gpus, params, save=SaveMode.FULL)).phase(MemoryPhase.SAVE).host.total
    sharded = (
        plan(job(strategy, gpus, params, save=SaveMode.SHARDED)).phase(MemoryPhase.SAVE).host.total
    )
    assert sharded.low <= full.low
    assert sharded.likely <= full.likely
    assert sharded.high <= full.high


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Any job whose parts hold together."""
    changes: dict[str, Any] = {
        "optimizer": draw(st.sampled_from(Optimizer)),
        "optimizer_on": draw(st.sampled_from(Placement)),
        "params_on": draw(st.sampled_from(Placement)),
        "recompute": draw(st.sampled_from(Recompute)),
        "unstated": draw(st.frozensets(st.sampled_from(JobOption))),
        "accumulates": draw(st.sampled_from([None, False, True])),
        "micro_batch": draw(st.integers(1, 64)),
        "seq_len": draw(st.integers(1, 131072)),
        "save": draw(st.sampled_from(SaveMode)),
        "lora": draw(st.sampled_from([None, Lora(1), Lora(16, covers_all=False)])),
        "loss": draw(st.sampled_from(Loss)),
        "method": draw(st.sampled_from(Method)),
    }
    strategy = draw(st.sampled_from(Strategy)).value
    wanted = job(strategy, draw(GPUS), draw(PARAMS), **changes)
    if is_valid(wanted):
        return wanted
    plain = {"optimizer_on": Placement.GPU, "params_on": Placement.GPU, "save": SaveMode.TRAINER}
    return job(strategy, wanted.gpus, wanted.shape.params, **{**changes, **plain})


@given(jobs())
@settings(max_examples=150, deadline=None)
def test_every_amount_is_ordered_and_in_bytes(wanted: Job) -> None:
    found = plan(wanted)
    most = 64 * (wanted.shape.params + 10**9) * wanted.gpus
    most += 10**4 * wanted.micro_batch * wanted.seq_len * wanted.shape.layers * wanted.shape.hidden
    for phase in found.phases:
        for side in Side:
            total = phase.stack(side).total
            assert 0 <= total.low <= total.likely <= total.high
            # gibibytes among bytes would be a billion times too small, or too large
            assert 4e8 <= total.high <= 100 * most
            for line in phase.stack(side).lines:
                assert 0 <= line.amount.low <= line.amount.likely <= line.amount.high


@given(jobs(), st.integers(2, 4))
@settings(max_examples=60, deadline=None)
def test_a_larger_batch_never_needs_less(wanted: Job, factor: int) -> None:
    larger = replace(wanted, micro_batch=wanted.micro_batch * factor)
    before, after = (plan(j).phase(MemoryPhase.STEP).gpu.total.likely for j in (wanted, larger))
    assert before <= after
