"""None"""

from __future__ import annotations

import pytest

from envguard.memory.job import Job, Placement
from envguard.memory.plan import GIB
from envguard.memory.plan_report import other_estimates
from tests.memory.jobs import job, table


def test_deepspeeds_own_figure_stands_first() -> None:
    first = other_estimates(job("zero2"), table())[0]
    assert first.formula == "ds_zero2_no_offload"
    assert first.gpu == 2 * 7.6e9 + 18 * 7.6e9 / 4
    assert first.host == 4 * 7.6e9 * 4 * 1.5
    assert "no activations" in first.why


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        (job("zero2", optimizer_on=Placement.CPU), "ds_zero2_offload_optimizer_cpu"),
        (job("zero3"), "ds_zero3_no_offload_zero_init"),
        (job("zero3", optimizer_on=Placement.CPU), "ds_zero3_offload_optimizer_zero_init"),
        (
            job("zero3", optimizer_on=Placement.CPU, params_on=Placement.CPU),
            "ds_zero3_offload_param_and_optimizer_zero_init",
        ),
    ],
)
def test_each_branch_of_deepspeeds_estimator_is_found(wanted: Job, name: str) -> None:
    assert other_estimates(wanted, table())[0].formula == name


@pytest.mark.parametrize("strategy", ["zero1", "ddp", "fsdp-full"])
def test_where_there_is_no_estimator_only_the_rules_are_listed(strategy: str) -> None:
    found = other_estimates(job(strategy), table())
    assert all(item.formula == "" for item in found)
    assert len(found) == 10
    assert any("EleutherAI" in item.tool for item in found)


def test_the_estimate_without_offload_is_far_below_the_plan_with_it() -> None:
    wanted = job("zero3", params=6.805e9, optimizer_on=Placement.CPU, params_on=Placement.CPU)
    first = other_estimates(wanted, table())[0]
    assert first.gpu is not None
    assert first.gpu / GIB < 1
