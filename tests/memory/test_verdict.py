"""None"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.matrix.memory import Amount
from envguard.memory.formulas import Line, MemoryPart, Stack
from envguard.memory.job import Job, JobOption, Lora, Placement, Precision, Recompute, SaveMode
from envguard.memory.plan import GIB, MemoryPhase, Planner, Side, calibrate
from envguard.memory.verdict import Dependence, Grade, Judgement, find_overruns, grade, judge
from tests.memory.jobs import VERSIONS, job, limits, plan, table

if TYPE_CHECKING:
    from envguard.memory.plan import Measured


def stack(low: float, likely: float, high: float, *, is_firm: bool = True) -> Stack:
    amount = Amount(low, likely, high)
    return Stack((Line(MemoryPart.WEIGHTS, "x", amount, "", is_firm=is_firm),))


@pytest.mark.parametrize(
    ("amounts", "limit", "expected"),
    [
        ((1, 2, 3), 4, Grade.FITS),
        ((1, 2, 5), 4, Grade.TIGHT),
        ((1, 5, 6), 4, Grade.BREAKS),
        ((1, 2, 3), None, Grade.UNKNOWN),
        ((1, 4, 4), 4, Grade.FITS),
    ],
)
def test_a_need_is_held_against_a_limit(
    amounts: tuple[float, float, float], limit: float | None, expected: Grade
) -> None:
    assert grade(stack(*amounts), limit) is expected


def test_weak_evidence_alone_only_warns() -> None:
    assert grade(stack(1, 5, 6, is_firm=False), 4) is Grade.TIGHT
    mixed = Stack((*stack(3.8, 3.8, 3.8).lines, *stack(0, 1, 2, is_firm=False).lines))
    assert grade(mixed, 4) is Grade.BREAKS


def broken(wanted: Job, gpu: float | None = None, host: float | None = None) -> list[object]:
    found = find_overruns(plan(wanted, gpu, host), limits(gpu, host))
    return [(item.side, item.phase, item.cause) for item in found]


OLD = replace(VERSIONS, transformers=Version("4.46.3"))


@pytest.mark.parametrize(
    ("wanted", "gpu", "host", "first"),
    [
        (job("zero2"), 80, 64, (Side.HOST, MemoryPhase.SAVE, "host-oom-save")),
        (
            job("zero3", params=30e9, gpus=8, save=SaveMode.HALF),
            None,
            64,
            (Side.HOST, MemoryPhase.SAVE, "host-oom-rank0-gather"),
        ),
        (
            job("zero2", params=13.9e9),
            80,
            None,
            (Side.GPU, MemoryPhase.STEP, "gpu-oom-zero2-full-params"),
        ),
        (
            job("zero3", params=70.6e9, gpus=16, nodes=2),
            80,
            None,
            (Side.GPU, MemoryPhase.STEP, "gpu-oom-states-plus-activations"),
        ),
        (
            job("zero3", params=9.4e9, gpus=1, optimizer_on=Placement.CPU, params_on=Placement.CPU),
            None,
            160,
            (Side.HOST, MemoryPhase.INIT, "host-oom-optimizer-offload"),
        ),
        (
            job("zero2", versions=OLD),
            None,
            96,
            (Side.HOST, MemoryPhase.LOAD, "host-oom-per-rank-load"),
        ),
        (
            job("ddp", gpus=1, versions=OLD),
            None,
            32,
            (Side.HOST, MemoryPhase.LOAD, "host-oom-load"),
        ),
        (
            job("fsdp-full", fsdp_efficient_load=False),
            None,
            96,
            (Side.HOST, MemoryPhase.INIT, "host-oom-per-rank-load"),
        ),
        (
            job("zero3", resumes=True),
            None,
            64,
            (Side.HOST, MemoryPhase.RESUME, "host-oom-resume"),
        ),
    ],
)
def test_the_first_phase_that_breaks_has_its_cause(
    wanted: Job, gpu: float | None, host: float | None, first: object
) -> None:
    assert broken(wanted, gpu, host)[0] == first


def test_adapters_over_zero2_break_the_save_like_full_training() -> None:
    wanted = job("zero2", params=34e9, gpus=1, lora=Lora(16))
    assert broken(wanted, None, 64)[0] == (Side.HOST, MemoryPhase.SAVE, "host-oom-save")


def test_a_run_without_resume_does_not_break_in_it() -> None:
    assert broken(job("zero3"), None, 64) == []


def judged(
    wanted: Job, gpu: float | None, host: float | None = None, measured: Measured | None = None
) -> Judgement:
    held = limits(gpu, host)
    planner = Planner(table())
    if measured is not None:
        planner = Planner(table(), calibrate(plan(wanted, gpu, host), measured))
    return judge(planner, planner.plan(wanted, held), held)


def open_job(strategy: str, *options: JobOption, params: float = 7.6e9, gpus: int = 4) -> Job:
    """A job with checkpointing, of which some options are not stated."""
    unstated = frozenset(options)
    return job(strategy, gpus, params, recompute=Recompute.FULL, unstated=unstated)


def only(found: Judgement) -> Dependence:
    assert found.breaks == ()
    (one,) = found.depends
    return one


def test_an_option_that_is_not_stated_decides() -> None:
    found = only(judged(open_job("zero2", JobOption.RECOMPUTE, params=13e9, gpus=8), 64))
    assert (found.side, found.phase, found.options) == (
        Side.GPU,
        MemoryPhase.STEP,
        (JobOption.RECOMPUTE,),
    )
    assert found.fitting.words == ("--recompute full",)
    assert found.breaking.words == ("--recompute none",)
    assert found.fitting.need < found.limit < found.breaking.need


def test_a_stated_option_does_not() -> None:
    found = judged(open_job("zero2", params=13e9, gpus=8), 64)
    assert (found.breaks, found.depends) == ((), ())
    wanted = job("zero2", 8, 13e9, recompute=Recompute.NONE)
    assert [b.phase for b in judged(wanted, 64).breaks] == [MemoryPhase.STEP]


def test_where_everything_breaks_it_is_a_failure() -> None:
    found = judged(open_job("zero2", *JobOption, params=13.9e9), 80)
    assert {(b.side, b.phase) for b in found.breaks} == {(Side.GPU, MemoryPhase.STEP)}
    assert found.depends == ()


def test_where_everything_fits_nothing_depends() -> None:
    found = judged(open_job("zero3", *JobOption, gpus=8), 80, 512)
    assert (found.breaks, found.depends) == ((), ())


def test_several_options_may_have_to_be_set_together() -> None:
    wanted = job(
        "zero2",
        8,
        13e9,
        micro_batch=16,
        unstated=frozenset({JobOption.RECOMPUTE, JobOption.SEQ_LEN}),
    )
    found = only(judged(wanted, 64))
    assert found.fitting.words == ("--recompute full", "--seq-len 512")
    assert found.breaking.words == ("--recompute none", "--seq-len 2048")


def test_the_other_way_differs_in_as_few_options_as_it_can() -> None:
    wanted = open_job("zero2", JobOption.SEQ_LEN, JobOption.RECOMPUTE, params=13e9, gpus=8)
    assert only(judged(wanted, 64)).options == (JobOption.RECOMPUTE,)


def test_a_way_out_leaves_a_margin() -> None:
    changes = {"micro_batch": 8, "recompute": Recompute.FULL}
    short = plan(job("zero3", 8, 30e9, seq_len=512, **changes))
    needed = short.phase(MemoryPhase.STEP).gpu.total.likely / GIB / 0.985  # of nominal memory
    wanted = job("zero3", 8, 30e9, unstated=frozenset({JobOption.SEQ_LEN}), **changes)
    found = judged(wanted, needed * 1.04)
    assert (len(found.breaks), found.depends) == (1, ())
    assert only(judged(wanted, needed * 1.06)).fitting.words == ("--seq-len 512",)


def test_fp32_masters_are_open_where_torch_shards() -> None:
    found = only(judged(open_job("fsdp-full", JobOption.PRECISION, params=30e9), 96))
    assert found.fitting.words == ("--dtype pure-bf16",)
    assert found.breaking.words == ("--dtype bf16",)
    # DeepSpeed always keeps them
    assert judged(open_job("zero3", JobOption.PRECISION, params=30e9), 96).depends == ()


def test_fsdp_may_save_shards_but_zero2_under_the_trainer_clones() -> None:
    found = only(judged(open_job("fsdp-full", JobOption.SAVE), 80, 64))
    assert (found.side, found.phase) == (Side.HOST, MemoryPhase.SAVE)
    assert found.fitting.words == ("--save sharded",)
    assert [b.cause for b in judged(open_job("zero2", JobOption.SAVE), 80, 64).breaks] == [
        "host-oom-save"
    ]


def test_a_side_that_breaks_anyway_depends_on_nothing() -> None:
    wanted = open_job("fsdp-full", JobOption.SAVE, JobOption.RECOMPUTE)
    found = judged(wanted, 80, 24)
    assert {b.side for b in found.breaks} == {Side.HOST}
    assert all(d.side is Side.GPU for d in found.depends)


def test_a_measured_run_has_decided_what_is_not_stated() -> None:
    wanted = open_job("zero2", JobOption.RECOMPUTE, params=13e9, gpus=8)
    measured: Measured = {(Side.GPU, None): 50 * GIB}
    found = judged(wanted, 64, measured=measured)
    assert (found.breaks, found.depends) == ((), ())


def test_without_a_limit_nothing_is_judged() -> None:
    found = judged(open_job("zero2", *JobOption), None)
    assert (found.breaks, found.depends) == ((), ())


def test_a_pure_bf16_job_stays_what_it_is() -> None:
    wanted = job(
        "fsdp-full", precision=Precision.PURE_BF16, unstated=frozenset({JobOption.SEQ_LEN})
    )
    assert judged(wanted, 80).depends == ()
