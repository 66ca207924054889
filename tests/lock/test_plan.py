"""Plans: which build is chosen for which machines, and what stands against the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from envguard.errors import ExitCode, NetworkError, NoBuildError
from envguard.facts.machine import Driver, Host, Machine
from envguard.facts.versions import CPU
from envguard.fit import DriverGrade
from envguard.lock.lock_plan import LockPlan, build_requirements, plan_lock
from envguard.lock.package_index import IndexSettings
from envguard.lock.request import Target
from tests.lock.conftest import LINUX, ask, h100, v100
from tests.loopback.index import Trouble

if TYPE_CHECKING:
    from envguard.lock.uv import Uv
    from envguard.matrix.loader import Matrix
    from tests.loopback.index import LoopbackIndex


def version(plan: LockPlan, name: str) -> str:
    return next(str(pin.version) for pin in plan.pins if pin.name == name)


def reasons(plan: LockPlan) -> dict[str, str]:
    return {item.build.label: "; ".join(item.reasons) for item in plan.rejected}


def test_v100_with_driver_535_gets_the_last_build_with_code_for_it(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    plan = plan_lock(ask(index, "torch", machines=(v100(),)), matrix, uv)
    assert plan.build.label == "2.14.1+cu126"
    assert plan.grade is DriverGrade.SAME_MAJOR
    assert plan.torch_index == f"{index.address}/whl/cu126"
    assert (str(plan.driver_exact), str(plan.driver_floor)) == ("560.28.03", "525.60.13")
    assert "needs a driver 580 or newer, the driver is 535.104.05" in reasons(plan)["2.15.0+cu130"]
    assert "no code for GPU 0" in reasons(plan)["2.14.1+cu130"]
    assert "2.13.0+cu130" not in reasons(plan)


def test_h100_with_driver_580_gets_the_newest_release(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    plan = plan_lock(ask(index, "torch", machines=(h100(),)), matrix, uv)
    assert plan.build.label == "2.15.0+cu130"
    assert plan.grade is DriverGrade.EXACT


def test_all_machines_have_to_be_served(index: LoopbackIndex, matrix: Matrix, uv: Uv) -> None:
    plan = plan_lock(ask(index, "torch", machines=(h100(), v100())), matrix, uv)
    assert plan.build.label == "2.14.1+cu126"


def test_exact_driver_fit_narrows_the_choice(index: LoopbackIndex, matrix: Matrix, uv: Uv) -> None:
    request = replace(ask(index, "torch", machines=(v100("570.26"),)), exact_only=True)
    assert plan_lock(request, matrix, uv).build.label == "2.14.1+cu126"
    older = replace(ask(index, "torch<2.11", machines=(v100("570.26"),)), exact_only=True)
    assert plan_lock(older, matrix, uv).build.label == "2.10.0+cu128"


def test_bounds_on_torch_are_kept(index: LoopbackIndex, matrix: Matrix, uv: Uv) -> None:
    plan = plan_lock(ask(index, "torch<2.9", machines=(v100("570.26"),)), matrix, uv)
    assert plan.build.version == Version("2.8.0")


def test_label_in_the_request_names_the_build(index: LoopbackIndex, matrix: Matrix, uv: Uv) -> None:
    plan = plan_lock(ask(index, "torch==2.8.0+cu126", machines=(v100(),)), matrix, uv)
    assert plan.build.label == "2.8.0+cu126"


def test_torch_is_locked_even_where_nothing_asks_for_it(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    plan = plan_lock(ask(index, "numpy", machines=(v100(),)), matrix, uv)
    assert version(plan, "torch") == "2.14.1+cu126"


def test_companions_are_those_released_with_torch(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    # torchaudio 2.11.0 asks for no torch at all: only the matrix keeps it from torch 2.8.0.
    request = ask(index, "torch==2.8.0", "torchaudio", "torchvision", machines=(v100(),))
    plan = plan_lock(request, matrix, uv)
    assert plan.build.label == "2.8.0+cu129"
    assert version(plan, "torchaudio") == "2.8.0+cu129"
    assert version(plan, "torchvision") == "0.23.0+cu129"


def test_torch_follows_a_stated_torchvision(index: LoopbackIndex, matrix: Matrix, uv: Uv) -> None:
    plan = plan_lock(ask(index, "torchvision==0.25.0", machines=(v100(),)), matrix, uv)
    assert plan.build.version == Version("2.10.0")
    assert reasons(plan)["2.14.1+cu126"] == (
        "torchvision 0.29.1 goes with it, the request says torchvision==0.25.0"
    )


@pytest.mark.parametrize(
    ("package", "chosen", "wanted"),
    [
        ("oldlib", "2.10.0", "torch<2.11"),
        ("pinned", "2.8.0", "torch==2.8.0"),
        ("audiolib", "2.8.0", "torchaudio==2.8.0"),
    ],
)
def test_torch_follows_what_other_packages_need(
    index: LoopbackIndex, matrix: Matrix, uv: Uv, package: str, chosen: str, wanted: str
) -> None:
    plan = plan_lock(ask(index, package, machines=(v100(),)), matrix, uv)
    assert plan.build.version == Version(chosen)
    assert wanted in reasons(plan)["2.14.1+cu126"]
    assert wanted in reasons(plan)["2.13.0+cu126"]


def test_torch_follows_what_the_matrix_asks_of_a_package_that_came_along(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    """DeepSpeed below 0.14 cannot be imported beside torch 2.4 or newer, nor beside numpy 2."""
    target = Target(LINUX, Version("3.11"))
    request = replace(ask(index, "oldspeed", "deepspeed", machines=(v100(),)), target=target)
    plan = plan_lock(request, matrix, uv)
    assert plan.build.label == "2.3.1+cu121"
    assert version(plan, "deepspeed") == "0.13.5"
    said = reasons(plan)["2.14.1+cu126"]
    assert "oldspeed depend on deepspeed<0.14" in said
    assert [str(item.requirement) for item in plan.bounds if item.name == "numpy"] == ["numpy<2"]
    assert version(plan, "numpy") == "1.26.4"
    assert "deepspeed>=0.14.4: DeepSpeed imports a name that torch's elastic agent" in said


def test_release_that_the_index_lacks_is_passed_over(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    plan = plan_lock(ask(index, "torch<2.13", machines=(v100(),)), matrix, uv)
    assert plan.build.version == Version("2.11.0")
    assert reasons(plan)["2.12.1+cu126"] == f"{index.address}/whl/cu126 does not have it"


def test_releases_after_the_cut_off_are_passed_over(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    request = replace(ask(index, "torch", machines=(v100(),)), exclude_newer="2026-08-01")
    plan = plan_lock(request, matrix, uv)
    assert plan.build.label == "2.13.0+cu126"
    assert reasons(plan)["2.14.1+cu126"] == "released 2026-09-30, after 2026-08-01"


def test_machine_without_gpu_gets_a_cpu_build_and_is_told(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    machine = Machine(host=Host(platform=LINUX), gpus=())
    plan = plan_lock(ask(index, "torch", machines=(machine,)), matrix, uv)
    assert plan.build.backend == CPU
    assert plan.driver_floor is None
    assert any("a CPU build is locked" in note for note in plan.notes)
    assert not [pin.name for pin in plan.pins if pin.name.startswith(("nvidia", "triton"))]


def test_gpu_machine_never_gets_a_cpu_build_unasked(matrix: Matrix, index: LoopbackIndex) -> None:
    request = ask(index, "torch", machines=(v100("340.1"),))
    assert not build_requirements(request).allow_cpu
    assert build_requirements(replace(request, backend=CPU)).allow_cpu


def test_driver_that_is_not_known_is_said(index: LoopbackIndex, matrix: Matrix, uv: Uv) -> None:
    machine = replace(v100(), driver=Driver())
    plan = plan_lock(ask(index, "torch", machines=(machine,)), matrix, uv)
    assert plan.build.label == "2.14.1+cu126"
    assert "no driver is known: the build needs driver 525.60.13 or newer" in plan.notes


@pytest.mark.parametrize(
    ("words", "machine", "said"),
    [
        (("torch",), v100("340.1"), "the driver is 340.1"),
        (("torch>=2.15",), v100(), "no build of torch>=2.15 serves the machines"),
        (("torch>=99",), v100(), "no build of torch>=99 is published for linux-x86_64"),
        (("torch",), v100(glibc="2.12"), "needs glibc"),
    ],
)
def test_no_build_says_what_stands_against_it(
    index: LoopbackIndex,
    matrix: Matrix,
    uv: Uv,
    words: tuple[str, ...],
    machine: Machine,
    said: str,
) -> None:
    with pytest.raises(NoBuildError) as caught:
        plan_lock(ask(index, *words, machines=(machine,)), matrix, uv)
    assert said in caught.value.message
    assert caught.value.exit_code is ExitCode.DOES_NOT_FIT


def test_python_that_torch_has_no_wheel_for_is_said(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    target = Target(LINUX, Version("3.8"), Version("2.31"))
    request = ask(index, "torch>=2.8", machines=(v100(),), target=target)
    with pytest.raises(NoBuildError, match=r"Python 3\.8:\n  14 builds, .*: no cp38 wheel"):
        plan_lock(request, matrix, uv)


def test_impossible_request_fails_at_once_and_names_the_packages(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    with pytest.raises(NoBuildError) as caught:
        plan_lock(ask(index, "modern", "ancient", machines=(v100(),)), matrix, uv)
    assert caught.value.message.startswith("the request cannot be resolved: ")
    assert "the request asks for modern and ancient" in caught.value.message
    assert caught.value.exit_code is ExitCode.DOES_NOT_FIT


def test_requests_that_no_torch_satisfies_end_with_the_reasons(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    request = ask(index, "oldlib", "torch>=2.12", machines=(v100(),))
    with pytest.raises(NoBuildError) as caught:
        plan_lock(request, matrix, uv)
    assert "oldlib needs torch<2.11; the builds for cu126" in caught.value.message
    assert "none of the 5 builds that serve the machines can be resolved" in caught.value.message


def test_mirror_laid_out_as_one_flat_page_works(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    template = f"{index.address}/flat/{{backend}}"
    request = ask(index, "torch", "timm", machines=(v100(),), torch=template)
    plan = plan_lock(request, matrix, uv)
    assert plan.torch_index == f"{index.address}/flat/cu126"
    assert version(plan, "torchvision") == "0.29.1+cu126"


def test_page_with_all_backends_gives_companions_of_the_same_backend(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    template = f"{index.address}/flat/torch_stable.html"
    request = ask(index, "torch", "timm", machines=(v100(),), torch=template)
    plan = plan_lock(request, matrix, uv)
    assert version(plan, "torch") == "2.14.1+cu126"
    assert version(plan, "torchvision") == "0.29.1+cu126"


@pytest.mark.parametrize(
    ("prefix", "trouble", "said"),
    [
        ("/whl", Trouble.FORBIDDEN, "/whl/cu126 refuses access: 403 Forbidden"),
        ("/whl", Trouble.MISSING, "/whl/cu126 has no page for torch"),
        ("/simple", Trouble.FORBIDDEN, "/simple refuses access: 403 Forbidden"),
    ],
)
def test_index_that_gives_nothing_is_a_network_error(
    index: LoopbackIndex, matrix: Matrix, fresh_uv: Uv, prefix: str, trouble: Trouble, said: str
) -> None:
    with index.trouble(prefix, trouble), pytest.raises(NetworkError) as caught:
        plan_lock(ask(index, "torch", machines=(v100(),)), matrix, fresh_uv)
    assert said in caught.value.message


def test_credentials_of_indexes_stay_out_of_the_plan(
    index: LoopbackIndex, matrix: Matrix, uv: Uv
) -> None:
    settings = IndexSettings(
        f"{index.private_address}/whl/{{backend}}", f"{index.private_address}/simple"
    )
    request = replace(ask(index, "torch", machines=(v100(),)), indexes=settings)
    plan = plan_lock(request, matrix, uv)
    assert plan.torch_index == f"{index.address}/private/whl/cu126"
    assert "s3cret" not in repr((plan.pins, plan.rejected, plan.notes, plan.torch_index))


def test_constraints_reach_the_resolver(index: LoopbackIndex, matrix: Matrix, uv: Uv) -> None:
    request = replace(
        ask(index, "timm", machines=(v100(),)),
        constraints=(Requirement("numpy<2"), Requirement("torch<2.11")),
    )
    plan = plan_lock(request, matrix, uv)
    assert version(plan, "numpy") == "1.26.4"
    assert plan.build.version == Version("2.10.0")
