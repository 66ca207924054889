"""None"""

from __future__ import annotations

from envguard.facts.findings import Finding, Status, root_cause_of, verdict_of
from envguard.matrix.loader import Matrix
from envguard.memory.changes import try_changes
from envguard.memory.job import Job, JobOption, Placement, Recompute
from envguard.memory.plan import Planner
from envguard.memory.plan_findings import plan_findings
from envguard.memory.verdict import fits, judge
from tests.memory.jobs import job, limits, table


def findings(wanted: Job, gpu: float | None, host: float | None) -> tuple[Finding, ...]:
    planner, held = Planner(table()), limits(gpu, host)
    found = planner.plan(wanted, held)
    tried = () if fits(found, held) else try_changes(planner, held, found)
    return plan_findings(found, held, judge(planner, found, held), tried, table())


def codes(found: tuple[Finding, ...]) -> list[tuple[str, str]]:
    return [(finding.code, finding.status.value) for finding in found]


def test_the_background_case_says_what_breaks_and_what_cures_it() -> None:
    found = findings(job("zero2"), 80, 64)
    assert codes(found) == [("MEM006", "fail"), ("MEM008", "warn")]
    first = found[0]
    assert first.title == "host memory breaks in save: 64.1 GiB needed, 57.5 GiB usable"
    assert "hf_trainer_deepspeed_zero012.node" in first.detail
    assert first.remedy is not None
    assert "save 16-bit weights from rank 0 only" in first.remedy.text
    assert first.source is not None
    assert first.source.url
    assert {item.origin for item in first.evidence} >= {"hf_trainer_deepspeed_zero012.node"}
    assert root_cause_of(found, Matrix.load().order.causes) == "host-oom-save"


def test_a_plan_that_fits_says_so_with_its_peaks() -> None:
    found = findings(job("zero2"), 80, 256)
    assert codes(found) == [("MEM013", "ok")]
    assert "of 78.8 GiB in step" in found[0].title


def test_a_side_without_limit_is_not_judged() -> None:
    found = findings(job("zero2"), 80, None)
    assert codes(found) == [("MEM013", "ok"), ("MEM011", "skip")]
    assert "--host-memory" in found[1].title
    assert verdict_of(found) is Status.OK


def test_without_any_limit_it_could_not_tell() -> None:
    found = findings(job("zero2"), None, None)
    assert codes(found) == [("MEM012", "unknown")]
    assert verdict_of(found) is Status.UNKNOWN


def test_a_range_over_the_limit_is_a_warning() -> None:
    found = findings(job("zero2", seq_len=1024), 56, 256)
    assert codes(found) == [("MEM009", "warn")]
    assert "up to" in found[0].title


def test_only_parts_that_have_a_range_are_called_wide() -> None:
    (found,) = [
        finding
        for finding in findings(job("zero2", gpus=8), 80, 150)
        if finding.code == "MEM009" and finding.title.startswith("host")
    ]
    assert found.detail.startswith("Widest ranges: processes ")
    assert "," not in found.detail  # checkpoint copies, the other part, have one size


def test_offloaded_states_that_may_grow_are_a_warning() -> None:
    wanted = job("zero3", optimizer_on=Placement.CPU, params_on=Placement.CPU)
    found = findings(wanted, 80, 264)
    assert ("MEM010", "warn") in codes(found)
    assert verdict_of(found) is Status.WARN


def test_several_causes_are_all_found_and_the_earliest_is_the_root() -> None:
    found = findings(job("zero2", params=30e9), 80, 64)
    failing = [f.cause for f in found if f.status is Status.FAIL]
    assert set(failing) >= {"gpu-oom-states-plus-activations", "host-oom-save"}
    assert root_cause_of(found, Matrix.load().order.causes) == "host-oom-per-rank-load"


def test_where_nothing_is_enough_the_remedy_says_so() -> None:
    found = findings(job("ddp", gpus=1, params=400e9), 24, 64)
    assert found[0].remedy is not None
    assert "no single change" in found[0].remedy.text


def test_what_is_not_stated_is_named_with_both_figures() -> None:
    unstated = frozenset({JobOption.RECOMPUTE})
    wanted = job("zero2", 8, 13e9, recompute=Recompute.FULL, unstated=unstated)
    (found, _) = findings(wanted, 64, None)
    assert (found.code, found.cause, found.status) == ("MEM014", "memory-plan", Status.WARN)
    assert found.title.startswith("GPU memory in step depends on what is not stated: ")
    assert " GiB with --recompute none, " in found.title
    assert " GiB with --recompute full, 63.0 GiB usable" in found.title
    assert found.detail.startswith("State --recompute for a verdict. ")
    (assumed, _) = findings(job("zero2", 8, 13e9, unstated=unstated), 64, None)
    assert assumed.status is Status.UNKNOWN
    assert assumed.remedy is not None
    assert "activation checkpointing" in assumed.remedy.text
