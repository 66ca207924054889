from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.memory.job import Job, Option, Precision, Recompute
from envguard.memory.plan import GIB, Phase, Planner, Side, calibrate
from envguard.memory.verdict import Dependence, Judgement, judge
from tests.memory.jobs import job, limits, plan, table

if TYPE_CHECKING:
    from envguard.memory.plan import Measured


def judged(
    wanted: Job, gpu: float | None, host: float | None = None, measured: Measured | None = None
) -> Judgement:
    held = limits(gpu, host)
    planner = Planner(table())
    if measured is not None:
        planner = Planner(table(), calibrate(plan(wanted, gpu, host), measured))
    return judge(planner, planner.plan(wanted, held), held)


def open_job(strategy: str, *options: Option, params: float = 7.6e9, gpus: int = 4) -> Job:
    """A job with checkpointing, of which some options are not stated."""
    unstated = frozenset(options)
    return job(strategy, gpus, params, recompute=Recompute.FULL, unstated=unstated)


def only(found: Judgement) -> Dependence:
    assert found.breaks == ()
    (one,) = found.depends
    return one


def test_an_option_that_is_not_stated_decides() -> None:
    found = only(judged(open_job("zero2", Option.RECOMPUTE, params=13e9, gpus=8), 64))
    assert (found.side, found.phase, found.options) == (
        Side.GPU,
        Phase.STEP,
        (Option.RECOMPUTE,),
    )
    assert found.fitting.words == ("--recompute full",)
    assert found.breaking.words == ("--recompute none",)
    assert found.fitting.need < found.limit < found.breaking.need


def test_a_stated_option_does_not() -> None:
    found = judged(open_job("zero2", params=13e9, gpus=8), 64)
    assert (found.breaks, found.depends) == ((), ())
    wanted = job("zero2", 8, 13e9, recompute=Recompute.NONE)
    assert [b.phase for b in judged(wanted, 64).breaks] == [Phase.STEP]


def test_where_everything_breaks_it_is_a_failure() -> None:
    found = judged(open_job("zero2", *Option, params=13.9e9), 80)
    assert {(b.side, b.phase) for b in found.breaks} == {(Side.GPU, Phase.STEP)}
    assert found.depends == ()


def test_where_everything_fits_nothing_depends() -> None:
    found = judged(open_job("zero3", *Option, gpus=8), 80, 512)
    assert (found.breaks, found.depends) == ((), ())


def test_several_options_may_have_to_be_set_together() -> None:
    wanted = job(
        "zero2", 8, 13e9, micro_batch=16, unstated=frozenset({Option.RECOMPUTE, Option.SEQ_LEN})
    )
    found = only(judged(wanted, 64))
    assert found.fitting.words == ("--recompute full", "--seq-len 512")
    assert found.breaking.words == ("--recompute none", "--seq-len 2048")


def test_the_other_way_differs_in_as_few_options_as_it_can() -> None:
    wanted = open_job("zero2", Option.SEQ_LEN, Option.RECOMPUTE, params=13e9, gpus=8)
    assert only(judged(wanted, 64)).options == (Option.RECOMPUTE,)


def test_a_way_out_leaves_a_margin() -> None:
    changes = {"micro_batch": 8, "recompute": Recompute.FULL}
    short = plan(job("zero3", 8, 30e9, seq_len=512, **changes))
    needed = short.phase(Phase.STEP).gpu.total.likely / GIB / 0.985  # of nominal memory
    wanted = job("zero3", 8, 30e9, unstated=frozenset({Option.SEQ_LEN}), **changes)
    found = judged(wanted, needed * 1.04)
    assert (len(found.breaks), found.depends) == (1, ())
    assert only(judged(wanted, needed * 1.06)).fitting.words == ("--seq-len 512",)


def test_fp32_masters_are_open_where_torch_shards() -> None:
    found = only(judged(open_job("fsdp-full", Option.PRECISION, params=30e9), 96))
    assert found.fitting.words == ("--dtype pure-bf16",)
    assert found.breaking.words == ("--dtype bf16",)
    # DeepSpeed always keeps them
    assert judged(open_job("zero3", Option.PRECISION, params=30e9), 96).depends == ()


def test_fsdp_may_save_shards_but_zero2_under_the_trainer_clones() -> None:
    found = only(judged(open_job("fsdp-full", Option.SAVE), 80, 64))
    assert (found.side, found.phase) == (Side.HOST, Phase.SAVE)
    assert found.fitting.words == ("--save sharded",)
    assert [b.cause for b in judged(open_job("zero2", Option.SAVE), 80, 64).breaks] == [
        "host-oom-save"
    ]


def test_a_side_that_breaks_anyway_depends_on_nothing() -> None:
    wanted = open_job("fsdp-full", Option.SAVE, Option.RECOMPUTE)
    found = judged(wanted, 80, 24)
    assert {b.side for b in found.breaks} == {Side.HOST}
    assert all(d.side is Side.GPU for d in found.depends)


def test_a_measured_run_has_decided_what_is_not_stated() -> None:
    wanted = open_job("zero2", Option.RECOMPUTE, params=13e9, gpus=8)
    measured: Measured = {(Side.GPU, None): 50 * GIB}
    found = judged(wanted, 64, measured=measured)
    assert (found.breaks, found.depends) == ((), ())


def test_without_a_limit_nothing_is_judged() -> None:
    found = judged(open_job("zero2", *Option), None)
    assert (found.breaks, found.depends) == ((), ())


def test_a_pure_bf16_job_stays_what_it_is() -> None:
    wanted = job("fsdp-full", precision=Precision.PURE_BF16, unstated=frozenset({Option.SEQ_LEN}))
    assert judged(wanted, 80).depends == ()
