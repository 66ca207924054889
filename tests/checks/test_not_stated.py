"""What is said where a fact is missing: which one it is, and how to supply it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envguard.checks.context import index_words
from envguard.checks.driver import check_driver_serves_cuda
from envguard.checks.gpu import check_code_for_gpus
from envguard.facts.machine import Gpu
from tests.checks.sample import environment, facts, gpu, machine, run, said, torch_build


def test_code_that_differs_by_platform_asks_for_the_platform() -> None:
    base = machine(gpu("NVIDIA A100-SXM4-40GB", "8.0"))
    nowhere = replace(base, host=replace(base.host, platform=None))
    (finding,) = run(check_code_for_gpus, facts(nowhere, environment(torch_build("2.7.1+cu128"))))
    assert (finding.code, finding.status.value) == ("GPU007", "unknown")
    assert "on linux-aarch64 sm_90 sm_100 sm_120" in finding.detail
    assert finding.remedy is not None
    assert finding.remedy.text.startswith("state --platform, or ")


def test_release_without_rows_asks_for_no_capability() -> None:
    (finding,) = run(check_code_for_gpus, facts(env=environment(torch_build("2.99.0+cu128"))))
    assert finding.detail == "The matrix holds no row about what torch 2.99.0+cu128 contains."
    assert finding.remedy is not None
    assert "--compute-capability" not in finding.remedy.text


def test_cuda_of_a_later_major_is_not_served_whatever_it_needs() -> None:
    found = run(check_driver_serves_cuda, facts(env=environment(torch_build("2.99.0+cu990"))))
    (finding,) = found
    assert (finding.code, finding.cause) == ("DRV001", "driver-too-old-for-cuda-major")
    assert finding.detail.startswith(
        "torch 2.99.0+cu990 carries CUDA 99.0, which needs a newer driver. "
    )


@pytest.mark.parametrize(
    ("indices", "words"),
    [
        ((0,), "0"),
        ((0, 1), "0, 1"),
        ((0, 1, 2, 3), "0-3"),
        ((0, 2, 3, 5, 6, 7), "0, 2, 3, 5-7"),
        (tuple(range(0, 40, 2)), "0, 2, 4, 6, 8, 10, 12, 14, 12 more"),
    ],
)
def test_many_gpus_in_few_words(indices: tuple[int, ...], words: str) -> None:
    assert index_words([Gpu(index) for index in indices]) == words


@pytest.mark.parametrize("version", ["2.15.0+cu130", "2.99.0+cu130"])  # inferred, and no row
def test_no_build_holds_code_that_its_cuda_cannot_make(version: str) -> None:
    volta = machine(gpu("Tesla V100", "7.0"))
    (finding,) = run(check_code_for_gpus, facts(volta, environment(torch_build(version))))
    assert (finding.code, finding.cause) == ("GPU001", "arch-missing-old-gpu")
    assert finding.status.value == "fail"
    assert "CUDA 13.0 makes code from 7.5 on." in finding.detail


@pytest.mark.parametrize(
    ("version", "capability", "expected"),
    [
        ("2.7.0.dev20250310+cu124", "12.0", ("GPU002", "arch-missing-new-gpu", "fail")),
        ("2.7.0.dev20250310+cu128", "12.0", ("GPU008", "arch-inferred", "warn")),
        ("2.7.0.dev20250310+cu124", "8.9", ("GPU008", "arch-inferred", "warn")),  # as 8.6
        ("2.99.0.dev20300101+cu124", "12.0", ("GPU002", "arch-missing-new-gpu", "fail")),
    ],
)
def test_a_nightly_is_judged_by_its_cuda_and_the_releases_around_it(
    version: str, capability: str, expected: tuple[str, str, str]
) -> None:
    on = machine(gpu("a GPU", capability))
    found = said(check_code_for_gpus, facts(on, environment(torch_build(version))))
    assert found == [expected]


def started(word: str) -> tuple[tuple[str, str, str], ...]:
    return (("torch.cuda.is_available", word, "collect_env"),)


def test_torch_that_started_cuda_tells_that_the_driver_serves_it() -> None:
    unknown = machine(gpu("Tesla V100S-PCIE-32GB", "7.0"), driver=None, cuda=None)
    unknown = replace(unknown, driver=replace(unknown.driver, is_loaded=None))
    env = environment(torch_build("2.5.1+cu118"))
    (finding,) = run(check_driver_serves_cuda, facts(unknown, env, readings=started("True")))
    assert (finding.code, finding.status.value) == ("DRV000", "ok")
    (finding,) = run(check_driver_serves_cuda, facts(unknown, env, readings=started("False")))
    assert (finding.code, finding.status.value) == ("DRV008", "unknown")


def test_torch_that_started_cuda_on_an_older_driver_has_another_libcuda() -> None:
    old = machine(gpu("Tesla V100S-PCIE-32GB", "7.0"), driver="470.182.03", cuda="11.4")
    env = environment(torch_build("2.5.1+cu121"))
    (finding,) = run(check_driver_serves_cuda, facts(old, env, readings=started("True")))
    assert (finding.code, finding.cause, finding.status.value) == (
        "DRV007",
        "forward-compat-libcuda",
        "warn",
    )
