"""None"""

from __future__ import annotations

from envguard.memory.changes import TriedChange, sweep, try_changes
from envguard.memory.job import Job, Placement, SaveMode
from envguard.memory.plan import MemoryPhase, Planner, Side
from envguard.memory.verdict import fits
from tests.memory.jobs import job, limits, table


def tried(wanted: Job, gpu: float | None, host: float | None) -> tuple[TriedChange, ...]:
    planner, held = Planner(table()), limits(gpu, host)
    return try_changes(planner, held, planner.plan(wanted, held))


def test_a_save_that_breaks_is_cured_by_another_save_first() -> None:
    found = tried(job("zero2"), 80, 64)
    assert all(item.is_enough for item in found)
    assert found[0].change.option == "--save 16bit"
    options = [item.change.option for item in found]
    assert "--strategy zero3" in options
    assert "--host-memory 96" in options
    assert "--nodes 2" in options
    assert [item.change.cost for item in found] == sorted(item.change.cost for item in found)


def test_every_change_that_is_enough_fits_when_planned_again() -> None:
    for item in tried(job("zero2"), 80, 64):
        assert fits(item.plan, item.change.limits)


def test_activations_that_break_are_cured_by_checkpointing_or_a_smaller_batch() -> None:
    found = tried(job("zero3", gpus=8, micro_batch=16, seq_len=1024), 80, None)
    options = [item.change.option for item in found]
    assert options[0] == "--recompute full"
    assert "--micro-batch 4" in options


def test_whole_weights_that_break_are_cured_by_the_next_stage() -> None:
    found = tried(job("zero2", params=13.9e9, seq_len=1024), 80, None)
    assert "--strategy zero3" in [item.change.option for item in found if item.is_enough]


def test_offloaded_states_that_break_are_cured_by_not_offloading_or_nvme() -> None:
    wanted = job("zero3", gpus=4, optimizer_on=Placement.CPU, params_on=Placement.CPU)
    options = [item.change.option for item in tried(wanted, 80, 160)]
    assert "--offload none" in options
    assert "--offload-device nvme" in options


def test_where_nothing_is_enough_all_that_was_tried_is_told() -> None:
    found = tried(job("ddp", gpus=1, params=400e9), 24, 64)
    assert found
    assert not any(item.is_enough for item in found)
    for item in found:
        assert item.plan.peak(Side.GPU).phase in set(MemoryPhase)


NAMES = [
    "ddp",
    "zero1",
    "zero1 + optimizer offload",
    "zero2",
    "zero2 + optimizer offload",
    "zero3",
    "zero3 + optimizer offload",
    "zero3 + full offload",
    "fsdp-full",
    "fsdp-full + full offload",
    "fsdp-grad-op",
    "fsdp-grad-op + full offload",
    "fsdp-hybrid",
    "fsdp-hybrid + full offload",
]


def test_every_strategy_stands_side_by_side() -> None:
    rows = sweep(Planner(table()), job("zero2"), limits(80, 64))
    assert [row.name for row in rows] == NAMES
    by_name = {row.name: row for row in rows}
    assert by_name["zero3"].breaks == ()
    assert [(b.side, b.phase) for b in by_name["zero2"].breaks] == [(Side.HOST, MemoryPhase.SAVE)]


def test_a_save_that_a_framework_has_not_is_its_trainers() -> None:
    wanted = job("fsdp-full", save=SaveMode.DCP_ASYNC)
    rows = {row.name: row for row in sweep(Planner(table()), wanted, limits(80, 64))}
    assert rows["zero2"].plan.job.save is SaveMode.TRAINER
    assert rows["fsdp-full"].plan.job.save is SaveMode.DCP_ASYNC
