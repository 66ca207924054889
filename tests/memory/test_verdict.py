from __future__ import annotations

from dataclasses import replace

import pytest
from packaging.version import Version

from envguard.matrix.memory import Amount
from envguard.memory.formulas import Line, Part, Stack
from envguard.memory.job import Job, Lora, Place, SaveMode
from envguard.memory.plan import Phase, Side
from envguard.memory.verdict import Grade, find_breaks, grade
from tests.memory.jobs import VERSIONS, job, limits, plan


def stack(low: float, likely: float, high: float, *, is_firm: bool = True) -> Stack:
    amount = Amount(low, likely, high)
    return Stack((Line(Part.WEIGHTS, "x", amount, "", is_firm=is_firm),))


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
    found = find_breaks(plan(wanted, gpu, host), limits(gpu, host))
    return [(item.side, item.phase, item.cause) for item in found]


OLD = replace(VERSIONS, transformers=Version("4.46.3"))


@pytest.mark.parametrize(
    ("wanted", "gpu", "host", "first"),
    [
        (job("zero2"), 80, 64, (Side.HOST, Phase.SAVE, "host-oom-save")),
        (
            job("zero3", params=30e9, gpus=8, save=SaveMode.HALF),
            None,
            64,
            (Side.HOST, Phase.SAVE, "host-oom-rank0-gather"),
        ),
        (
            job("zero2", params=13.9e9),
            80,
            None,
            (Side.GPU, Phase.STEP, "gpu-oom-zero2-full-params"),
        ),
        (
            job("zero3", params=70.6e9, gpus=16, nodes=2),
            80,
            None,
            (Side.GPU, Phase.STEP, "gpu-oom-states-plus-activations"),
        ),
        (
            job("zero3", params=9.4e9, gpus=1, optimizer_on=Place.CPU, params_on=Place.CPU),
            None,
            160,
            (Side.HOST, Phase.INIT, "host-oom-optimizer-offload"),
        ),
        (job("zero2", versions=OLD), None, 96, (Side.HOST, Phase.LOAD, "host-oom-per-rank-load")),
        (job("ddp", gpus=1, versions=OLD), None, 32, (Side.HOST, Phase.LOAD, "host-oom-load")),
        (
            job("fsdp-full", fsdp_efficient_load=False),
            None,
            96,
            (Side.HOST, Phase.INIT, "host-oom-per-rank-load"),
        ),
        (
            job("zero3", resumes=True),
            None,
            64,
            (Side.HOST, Phase.RESUME, "host-oom-resume"),
        ),
    ],
)
def test_the_first_phase_that_breaks_has_its_cause(
    wanted: Job, gpu: float | None, host: float | None, first: object
) -> None:
    assert broken(wanted, gpu, host)[0] == first


def test_adapters_over_zero2_break_the_save_like_full_training() -> None:
    wanted = job("zero2", params=34e9, gpus=1, lora=Lora(16))
    assert broken(wanted, None, 64)[0] == (Side.HOST, Phase.SAVE, "host-oom-save")


def test_a_run_without_resume_does_not_break_in_it() -> None:
    assert broken(job("zero3"), None, 64) == []
