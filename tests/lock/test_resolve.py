"""Resolutions by the real uv against loopback indexes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from envguard.errors import ToolError
from envguard.lock.complaints import UnsolvableError
from envguard.lock.request import Target
from envguard.lock.resolve import resolve
from tests.lock.conftest import LINUX
from tests.lock.problems import asking, origins, versions
from tests.loopback.index import Trouble

if TYPE_CHECKING:
    from envguard.lock.project import Problem
    from envguard.lock.uv import Uv
    from tests.loopback.index import LoopbackIndex

TRITON = canonicalize_name("triton")


def test_family_comes_from_its_index_and_nothing_else_does(
    problem: Problem, uv: Uv, index: LoopbackIndex
) -> None:
    # The torch index offers requests, filelock and numpy 99, the default index torch and triton.
    pins = resolve(asking(problem, "timm", "requests"), uv)
    assert origins(pins, problem) == {"torch", "torchvision", "triton"}
    assert versions(pins) == {
        "filelock": "3.20.0",
        "fsspec": "2026.3.0",
        "jinja2": "3.1.6",
        "networkx": "3.6.1",
        "numpy": "2.4.1",
        "nvidia-cublas-cu12": "12.6.4.1",
        "nvidia-cuda-runtime-cu12": "12.6.77",
        "nvidia-cudnn-cu12": "9.10.2.21",
        "nvidia-nccl-cu12": "2.27.3",
        "pillow": "12.1.0",
        "pyyaml": "6.0.4",
        "requests": "2.34.2",
        "sympy": "1.14.0",
        "timm": "1.0.20",
        "torch": "2.14.1+cu126",
        "torchvision": "0.29.1+cu126",
        "triton": "3.8.0",
        "typing-extensions": "4.16.0",
    }
    assert {pin.index_url for pin in pins} == {index.default, problem.torch_index}


def test_published_wheel_keeps_its_published_hash(problem: Problem, uv: Uv) -> None:
    older = replace(problem, requirements=(Requirement("torch==2.8.0+cu126"),))
    pins = {pin.name: pin for pin in resolve(older, uv)}
    (artifact,) = pins[canonicalize_name("torch")].artifacts
    assert artifact.filename == "torch-2.8.0+cu126-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert artifact.url.endswith(
        "/whl/cu126/torch-2.8.0%2Bcu126-cp312-cp312-manylinux_2_28_x86_64.whl"
    )
    assert artifact.sha256 == "ce6e6a1f4803ad62d1fe51cec3fe5ca14bcd8bc7cace7b09d5590f8147fa16ad"


def test_expected_companion_that_nothing_needs_is_left_out(problem: Problem, uv: Uv) -> None:
    pins = resolve(replace(problem, companions=frozenset({canonicalize_name("torchaudio")})), uv)
    assert "torchaudio" not in versions(pins)
    assert "triton" in origins(pins, problem)


def test_expected_companion_saves_the_default_index_a_question(
    problem: Problem, fresh_uv: Uv, index: LoopbackIndex
) -> None:
    index.forget()
    resolve(replace(problem, companions=frozenset({TRITON})), fresh_uv)
    assert "/whl/cu126/triton/" in index.paths
    assert "/simple/triton/" not in index.paths


def test_triton_may_come_from_elsewhere_where_a_mirror_lacks_it(
    problem: Problem, fresh_uv: Uv, index: LoopbackIndex
) -> None:
    with index.trouble("/whl/cu126/triton", Trouble.MISSING):
        pins = resolve(replace(problem, companions=frozenset({TRITON})), fresh_uv)
    assert origins(pins, problem) == {"torch"}
    assert versions(pins)["triton"] == "3.8.0"


def test_torchvision_may_not_come_from_elsewhere(
    problem: Problem, fresh_uv: Uv, index: LoopbackIndex
) -> None:
    with (
        index.trouble("/whl/cu126/torchvision", Trouble.MISSING),
        pytest.raises(UnsolvableError, match="torchvision was not found"),
    ):
        resolve(asking(problem, "timm"), fresh_uv)


def test_bounds_on_the_family_hold_only_where_the_family_comes_from(
    problem: Problem, uv: Uv
) -> None:
    bounds = (Requirement("torchvision==0.29.1+cu126"), Requirement("torchaudio==2.11.0+cu126"))
    pins = resolve(replace(asking(problem, "timm", "torchaudio"), family_bounds=bounds), uv)
    assert versions(pins)["torchvision"] == "0.29.1+cu126"
    assert versions(pins)["torchaudio"] == "2.11.0+cu126"


def test_constraints_bound_what_comes_along(problem: Problem, uv: Uv) -> None:
    constrained = replace(asking(problem, "timm"), constraints=(Requirement("numpy<2"),))
    assert versions(resolve(constrained, uv))["numpy"] == "1.26.4"


@pytest.mark.parametrize(("glibc", "version"), [("2.31", "1.0"), ("2.35", "2.0")])
def test_wheels_run_on_the_glibc_of_the_target(
    problem: Problem, uv: Uv, glibc: str, version: str
) -> None:
    target = Target(LINUX, Version("3.12"), Version(glibc))
    pins = resolve(replace(asking(problem, "newglibc"), target=target), uv)
    assert versions(pins)["newglibc"] == version


@pytest.mark.parametrize(
    ("platform", "python", "tags"),
    [
        ("linux-aarch64", "3.13", "cp313-cp313-manylinux_2_28_aarch64"),
        ("windows-x86_64", "3.11", "cp311-cp311-win_amd64"),
    ],
)
def test_other_platforms_and_pythons_are_locked_from_here(
    problem: Problem, uv: Uv, platform: str, python: str, tags: str
) -> None:
    target = Target(LINUX.parse(platform), Version(python))
    pins = {pin.name: pin for pin in resolve(replace(problem, target=target), uv)}
    (artifact,) = pins[canonicalize_name("torch")].artifacts
    assert artifact.filename == f"torch-2.14.1+cu126-{tags}.whl"
    assert ("triton" in pins) == platform.startswith("linux")


def test_source_distribution_tells_what_it_needs(problem: Problem, uv: Uv) -> None:
    pins = {pin.name: pin for pin in resolve(asking(problem, "deepspeed"), uv)}
    (artifact,) = pins[canonicalize_name("deepspeed")].artifacts
    assert artifact.filename == "deepspeed-0.19.8.tar.gz"
    assert "hjson" in pins


def test_source_that_needs_torch_to_say_what_it_needs_is_one_clear_line(
    problem: Problem, uv: Uv
) -> None:
    with pytest.raises(ToolError) as caught:
        resolve(asking(problem, "needs-torch-to-build"), uv)
    assert caught.value.message == (
        "needs-torch-to-build 1.0 has no wheel for the target and its source does not say what "
        "it needs without being built: ModuleNotFoundError: No module named "
        "'torch_that_is_not_there'"
    )


def test_cut_off_holds_for_all_but_the_torch_index(problem: Problem, uv: Uv) -> None:
    pins = resolve(replace(asking(problem, "fresh"), exclude_newer="2026-08-01"), uv)
    assert versions(pins)["fresh"] == "1.0"
    assert versions(pins)["torch"] == "2.14.1+cu126"


def test_page_of_links_serves_as_torch_index(
    problem: Problem, uv: Uv, index: LoopbackIndex
) -> None:
    flat = replace(problem, torch_index=f"{index.address}/flat/torch_stable.html", is_flat=True)
    pins = resolve(asking(flat, "torchvision"), uv)
    assert origins(pins, flat) == {"torch", "torchvision", "triton"}


def test_one_index_may_serve_everything(problem: Problem, uv: Uv, index: LoopbackIndex) -> None:
    one = f"{index.address}/all"
    pins = resolve(replace(problem, torch_index=one, default_index=one), uv)
    assert {pin.index_url for pin in pins} == {one}
    assert versions(pins)["torch"] == "2.14.1+cu126"


def test_private_indexes_are_read_and_the_password_stays_out(
    problem: Problem, fresh_uv: Uv, index: LoopbackIndex
) -> None:
    private = replace(
        problem,
        torch_index=f"{index.private_address}/whl/cu126",
        default_index=f"{index.private_address}/simple",
    )
    pins = resolve(private, fresh_uv)
    assert {pin.index_url for pin in pins} == {
        f"{index.address}/private/whl/cu126",
        f"{index.address}/private/simple",
    }
    assert "s3cret" not in repr(pins)
