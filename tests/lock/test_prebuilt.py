"""Prebuilt wheels of extensions: the right one, or a definite no."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.errors import NetworkError, NoBuildError
from envguard.facts.versions import Backend
from envguard.lock.lock_plan import LockPlan, plan_lock
from envguard.lock.prepare import prepare_build
from envguard.lock.request import Target
from envguard.web.client import Web, WebCache
from envguard.web.releases import Releases
from tests.lock.conftest import LINUX, ask, h100, v100
from tests.loopback.index import Trouble
from tests.loopback.releases import release_files

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.lock.pins import Pin
    from envguard.lock.request import LockRequest
    from envguard.lock.uv import Uv
    from envguard.matrix.loader import Matrix
    from tests.loopback.index import LoopbackIndex

PY311 = Target(LINUX, Version("3.11"), Version("2.35"))


@pytest.fixture
def releases(index: LoopbackIndex, tmp_path: Path) -> Releases:
    return Releases(lambda: Web(WebCache(tmp_path / "web")), index.releases)


def request_for(index: LoopbackIndex, *words: str, target: Target = PY311) -> LockRequest:
    return ask(index, *words, machines=(h100("570.26"),), target=target)


def pin(plan: LockPlan, name: str) -> Pin:
    return next(pin for pin in plan.pins if pin.name == name)


def test_newest_torch_that_has_a_wheel_is_taken(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, releases: Releases
) -> None:
    plan = plan_lock(request_for(index, "torch", "flash-attn"), matrix, uv, releases=releases)
    assert plan.build.label == "2.8.0+cu128"
    flash = pin(plan, "flash-attn")
    (artifact,) = flash.artifacts
    assert (str(flash.version), flash.index_url) == ("2.8.3+cu12torch2.8cxx11abitrue", "")
    assert artifact.url == (
        f"{index.releases}/Dao-AILab/flash-attention/releases/download/v2.8.3/"
        "flash_attn-2.8.3%2Bcu12torch2.8cxx11abiTRUE-cp311-cp311-linux_x86_64.whl"
    )
    served = release_files()["Dao-AILab/flash-attention", "v2.8.3"]
    assert artifact.sha256 == next(f.sha256 for f in served if f.filename == artifact.filename)
    assert pin(plan, "einops").version == Version("0.8.1")
    passed = {item.build.label: item.reasons for item in plan.rejected}
    assert passed["2.14.1+cu126"] == (
        "there is no prebuilt wheel of flash-attn for torch 2.14, CUDA 12, cp311 on linux-x86_64",
    )


@pytest.mark.parametrize(("backend", "abi"), [("cu124", "FALSE"), ("cu126", "TRUE")])
def test_wheel_fits_the_abi_of_the_torch_build(
    index: LoopbackIndex, matrix: Matrix, releases: Releases, backend: str, abi: str
) -> None:
    # 2.6.0 was built with the old C++ ABI for CUDA 12.4 and with the new one for 12.6.
    build = matrix.torch.build(Version("2.6.0"), Backend.parse(backend), LINUX)
    assert build is not None
    request = request_for(index, "flash-attn")
    prepared = prepare_build(build, request, matrix, releases)
    (wheel,) = prepared.wheels
    assert f"cu12torch2.6cxx11abi{abi}-cp311" in str(wheel)


def test_list_without_digests_means_a_download(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, releases: Releases
) -> None:
    target = Target(LINUX, Version("3.12"), Version("2.35"))
    request = request_for(index, "causal-conv1d<1.7", target=target)
    plan = plan_lock(request, matrix, uv, releases=releases)
    assert plan.build.label == "2.10.0+cu128"
    (artifact,) = pin(plan, "causal-conv1d").artifacts
    assert "/v1.6.1.post4/causal_conv1d-1.6.1%2Bcu12torch2.10cxx11abiTRUE" in artifact.url
    served = release_files()["Dao-AILab/causal-conv1d", "v1.6.1.post4"]
    assert artifact.sha256 == next(f.sha256 for f in served if f.filename == artifact.filename)


def test_cuda_13_has_wheels_of_its_own(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, releases: Releases
) -> None:
    target = Target(LINUX, Version("3.12"), Version("2.35"))
    request = ask(index, "mamba-ssm", machines=(h100("580.65.06"),), target=target)
    plan = plan_lock(request, matrix, uv, releases=releases)
    assert plan.build.label == "2.10.0+cu130"
    assert "cu13torch2.10" in pin(plan, "mamba-ssm").artifacts[0].url


def test_where_there_is_none_the_answer_is_no_and_the_nearest(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, releases: Releases
) -> None:
    with pytest.raises(NoBuildError) as caught:
        plan_lock(request_for(index, "torch==2.13.0", "flash-attn"), matrix, uv, releases=releases)
    assert caught.value.message == (
        "there is no prebuilt wheel of flash-attn for torch 2.13, CUDA 12, cp311 on linux-x86_64; "
        "the nearest is flash-attn 2.8.3 for torch 2.8, CUDA 12, cp311"
    )
    assert caught.value.hint == "--allow-build leaves it to the machine to build flash-attn"


def test_allowed_build_takes_the_source_and_says_what_it_takes(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, releases: Releases
) -> None:
    request = request_for(index, "torch==2.13.0", "flash-attn")
    plan = plan_lock(replace(request, allow_build=True), matrix, uv, releases=releases)
    (artifact,) = pin(plan, "flash-attn").artifacts
    assert artifact.filename == "flash_attn-2.8.3.tar.gz"
    assert pin(plan, "einops").version == Version("0.8.1")
    (note,) = (note for note in plan.notes if "flash-attn" in note)
    assert note.startswith("flash-attn is built from source on the machine: it takes nvcc 11.7")


def test_allowed_build_passes_over_a_torch_whose_headers_refuse_it(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, releases: Releases
) -> None:
    request = replace(request_for(index, "torch", "flash-attn"), allow_build=True)
    plan = plan_lock(request, matrix, uv, releases=releases)
    assert plan.build.version == Version("2.13.0")
    passed = {item.build.label: item.reasons[0] for item in plan.rejected}
    assert "this torch's headers demand C++20" in passed["2.14.1+cu126"]


def test_gpu_that_is_too_old_is_a_definite_no(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, releases: Releases
) -> None:
    request = replace(ask(index, "flash-attn", machines=(v100(),)), allow_build=True)
    index.forget()
    with pytest.raises(NoBuildError) as caught:
        plan_lock(request, matrix, uv, releases=releases)
    assert caught.value.message == (
        "flash-attn serves compute capability 8.0 and above, the machines have 7.0"
    )
    assert index.paths == []


def test_windows_has_no_prebuilt_wheels(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, releases: Releases
) -> None:
    target = Target(LINUX.parse("windows-x86_64"), Version("3.11"))
    request = ask(index, "flash-attn", target=target)
    with pytest.raises(NoBuildError, match="publishes prebuilt wheels for Linux only"):
        plan_lock(request, matrix, uv, releases=releases)


def test_release_without_a_list_is_asked_for_the_file(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, releases: Releases
) -> None:
    listing = "/gh/Dao-AILab/flash-attention/releases/expanded_assets"
    request = request_for(index, "torch==2.8.0", "flash-attn==2.8.3")
    with index.trouble(listing, Trouble.UNLISTED):
        plan = plan_lock(request, matrix, uv, releases=releases)
    assert "cu12torch2.8cxx11abiTRUE-cp311" in pin(plan, "flash-attn").artifacts[0].url


def test_digest_other_than_the_one_on_record_is_refused(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, releases: Releases
) -> None:
    # The wheel for torch 2.9 and cp312 is in public lockfiles with another digest than it has here.
    target = Target(LINUX, Version("3.12"), Version("2.35"))
    request = request_for(index, "torch==2.9.1", "flash-attn", target=target)
    with pytest.raises(NetworkError) as caught:
        plan_lock(request, matrix, uv, releases=releases)
    assert "on record is 4e2f9e39313266b1544b68138b15b91e" in caught.value.message
    assert "the file was replaced" in caught.value.hint


def test_download_that_is_another_file_than_announced_is_refused(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, releases: Releases
) -> None:
    target = Target(LINUX, Version("3.12"), Version("2.35"))
    request = request_for(index, "torch==2.10.0", "causal-conv1d", target=target)
    asked_before = releases.file  # the size is announced before the file is replaced
    url = (
        f"{index.releases}/Dao-AILab/causal-conv1d/releases/download/v1.6.1.post4/"
        "causal_conv1d-1.6.1%2Bcu12torch2.10cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
    )
    assert asked_before(url) is not None
    with (
        index.trouble("/gh/assets", Trouble.REPLACED),
        pytest.raises(NetworkError, match=r"bytes, [0-9]+ were announced"),
    ):
        plan_lock(request, matrix, uv, releases=releases)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (Trouble.BROKEN, "it answers 500 Internal Server Error"),
        (Trouble.ELSEWHERE, "which is not https"),
        (Trouble.DROPPED, "no answer"),
    ],
)
def test_releases_in_trouble_are_no_absence(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, releases: Releases, trouble: Trouble, said: str
) -> None:
    with index.trouble("/gh", trouble), pytest.raises(NetworkError, match=said):
        plan_lock(request_for(index, "flash-attn"), matrix, uv, releases=releases)


def test_offline_a_wheel_that_was_seen_is_remembered(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, releases: Releases
) -> None:
    request = request_for(index, "torch==2.8.0", "flash-attn")
    online = plan_lock(request, matrix, uv, releases=releases)
    cache = releases.web.cache
    offline = Releases(lambda: Web(cache, is_offline=True), index.releases)
    index.forget()
    plan = plan_lock(replace(request, is_offline=True), matrix, uv, releases=offline)
    assert index.paths == []
    assert plan.pins == online.pins
    assert "offline: no index was asked" in plan.notes[0]


def test_offline_a_wheel_that_was_never_seen_is_not_promised(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, tmp_path: Path
) -> None:
    offline = Releases(lambda: Web(WebCache(tmp_path), is_offline=True), index.releases)
    request = replace(request_for(index, "torch==2.8.0", "flash-attn"), is_offline=True)
    with pytest.raises(NetworkError, match="offline: the hash of the wheel of flash-attn"):
        plan_lock(request, matrix, uv, releases=offline)
