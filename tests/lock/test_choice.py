"""Named packages rank before torch; a refusal and a reason say what stands against what."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.cli.main import main
from envguard.errors import NoBuildError
from envguard.lock.lock_plan import plan_lock
from tests.lock.conftest import TARGET, V100, ask, h100, v100

if TYPE_CHECKING:
    from envguard.facts.machine import Machine
    from envguard.lock.lock_plan import LockPlan
    from envguard.lock.uv import Uv
    from envguard.matrix.loader import Matrix
    from tests.lock.conftest import Lock
    from tests.loopback.index import LoopbackIndex


def version(plan: LockPlan, name: str) -> str:
    return next(str(pin.version) for pin in plan.pins if pin.name == name)


@pytest.mark.parametrize(
    ("words", "machine", "server", "torch"),
    [
        (("server",), h100(), "0.34.0", "2.15.0+cu130"),
        (("torch", "server"), h100(), "0.34.0", "2.15.0+cu130"),
        (("server",), v100(), "0.33.0", "2.13.0+cu126"),
        (("numpy", "torch", "server"), v100(), "0.33.0", "2.13.0+cu126"),
        (("server", "torch<2.12"), v100(), "0.19.1", "2.11.0+cu126"),
        (("server==0.11.0",), v100(), "0.11.0", "2.8.0+cu129"),
        (("server==0.11.0",), h100(), "0.11.0", "2.8.0+cu129"),
        (("trainer",), v100(), "0.33.0", "2.13.0+cu126"),
    ],
)
def test_newest_of_what_is_named_ranks_before_a_newer_torch(
    index: LoopbackIndex,
    matrix: Matrix,
    uv: Uv,
    words: tuple[str, ...],
    machine: Machine,
    server: str,
    torch: str,
) -> None:
    plan = plan_lock(ask(index, *words, machines=(machine,)), matrix, uv)
    assert (version(plan, "server"), plan.build.label) == (server, torch)


def test_each_build_that_was_passed_over_has_a_reason_of_its_own(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    plan = plan_lock(ask(index, "server==0.11.0", machines=(v100(),)), matrix, uv)
    reasons = {item.build.label: item.reasons for item in plan.rejected}
    assert reasons["2.14.1+cu126"] == ("server==0.11.0 needs torch==2.8.0",)
    assert any("driver" in reason for reason in reasons["2.15.0+cu132"])
    newer = [c.build.label for c in plan.ladder.candidates if c.build.version > Version("2.8.0")]
    assert not newer


def test_what_would_allow_the_newest_of_what_is_named_is_said(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    plan = plan_lock(ask(index, "server", machines=(v100(),)), matrix, uv)
    (said,) = [note for note in plan.notes if note.startswith("server")]
    assert said.startswith("server 0.33.0 is locked: the newest, 0.34.0 of 2026-11-02, takes torch")
    assert "compute capability 7.0" in said


def test_pin_that_no_machine_serves_is_refused_with_what_it_takes(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    with pytest.raises(NoBuildError) as caught:
        plan_lock(ask(index, "server==0.34.0", machines=(v100(),)), matrix, uv)
    lines = caught.value.message.splitlines()
    assert len(lines) <= 8
    assert "0.34.0 needs torch==2.15.0; the builds for cu126 that serve" in caught.value.message
    assert all(len(line) < 400 for line in lines)
    assert caught.value.hint.startswith("what it takes is torch 2.15.0+cu13")


def test_builds_that_were_not_tried_are_counted_in_the_refusal(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("envguard.lock.choose.MAX_TRIES", 1)
    monkeypatch.setattr("envguard.lock.choose.ruled_out", lambda *_: "")  # each fails by itself
    monkeypatch.setattr("envguard.lock.survey._MOST_BACKENDS", 1)
    with pytest.raises(NoBuildError) as caught:
        plan_lock(ask(index, "server==0.34.0", "torch<2.9", machines=(h100(),)), matrix, uv)
    first = caught.value.message.splitlines()[0]
    found = re.search(r"none of the (\d+) builds .* request, (\d+) more were not tried:", first)
    assert found is not None
    assert int(found[2]) > 0
    assert "--torch or --backend names a build that was not tried" in caught.value.hint


@pytest.mark.parametrize(
    "words",
    [("torch", "torchvision"), ("timm",), ("server",), ("accelerate", "server==0.11.0")],
)
@pytest.mark.parametrize("form", ["pylock.toml", "requirements.txt"])
@pytest.mark.parametrize("style", ["urls", "index"])
def test_what_lock_writes_check_calls_fit(
    lock: Lock, words: tuple[str, ...], form: str, style: str
) -> None:
    assert lock(*words, *V100, *TARGET, "--style", style, "-o", form) == 0
    assert Path(form).is_file()
    assert main(["check", form, *V100, *TARGET]) == 0


ELSEWHERE = {
    "linux-aarch64": ("--gpu", "GH200", "--driver", "580.65.06", "--glibc", "2.35"),
    "windows-x86_64": ("--gpu", "RTX 4090", "--driver", "580.97"),
}


@pytest.mark.parametrize("platform", ELSEWHERE)
@pytest.mark.parametrize(
    ("form", "style"),
    [("pylock.toml", "urls"), ("requirements.txt", "urls"), ("requirements.txt", "index")],
)
def test_what_lock_writes_for_other_platforms_check_calls_fit(
    lock: Lock, platform: str, form: str, style: str
) -> None:
    machine = (*ELSEWHERE[platform], "--platform", platform, "--python-version", "3.12")
    words = ("torch", "torchvision", "accelerate")
    assert lock(*words, *machine, "--style", style, "-o", form) == 0
    assert main(["check", form, *machine, "--format", "json"]) == 0


def test_what_lock_writes_for_one_platform_does_not_fit_another(lock: Lock) -> None:
    own = (*ELSEWHERE["windows-x86_64"], "--platform", "windows-x86_64", "--python-version", "3.12")
    assert lock("torch", *own, "-o", "pylock.toml") == 0
    assert main(["check", "pylock.toml", *V100, *TARGET]) == 1
