from __future__ import annotations

from envguard.memory.changes import sweep
from envguard.memory.job import SaveMode
from envguard.memory.plan import Phase, Planner, Side
from tests.memory.jobs import job, limits, table

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
    assert [(b.side, b.phase) for b in by_name["zero2"].breaks] == [(Side.HOST, Phase.SAVE)]


def test_a_save_that_a_framework_has_not_is_its_trainers() -> None:
    wanted = job("fsdp-full", save=SaveMode.DCP_ASYNC)
    rows = {row.name: row for row in sweep(Planner(table()), wanted, limits(80, 64))}
    assert rows["zero2"].plan.job.save is SaveMode.TRAINER
    assert rows["fsdp-full"].plan.job.save is SaveMode.DCP_ASYNC
