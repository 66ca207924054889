from __future__ import annotations

from dataclasses import replace

import pytest

from envguard.checks.wheel import check_accelerator
from envguard.facts.environment import Accelerator, BuildOrigin, Environment, Manager
from envguard.facts.machine import Machine, Platform
from tests.checks.sample import (
    H100,
    distribution,
    environment,
    facts,
    gpu,
    machine,
    pinned,
    run,
    said,
    torch_build,
)

CPU = environment(torch_build("2.9.1+cpu"))
NO_L4T = ("GPU006", "jetson-needs-l4t-build", "fail")
SELECTED = ("WHL002", "cpu-wheel-selected", "fail")


def unknown(platform: str, *, driver: str | None = None) -> Machine:
    """A machine of which little is known."""
    on = machine(driver=driver, cuda=None, container=None)
    on = replace(on, gpus=None, driver=replace(on.driver, is_loaded=None))
    return replace(on, host=replace(on.host, platform=Platform.parse(platform)))


def reported(version: str, metadata: str) -> Environment:
    """What collect_env shows: the imported torch and pip's word on it."""
    torch = torch_build(
        version, origin=BuildOrigin.REPORT, location=None, accelerator=Accelerator.CPU
    )
    return environment(torch, distribution("torch", metadata))


def test_a_cpu_build_beside_a_gpu_is_wasted() -> None:
    assert said(check_accelerator, facts(machine(H100), CPU)) == [SELECTED]


def test_a_cpu_build_without_a_gpu_is_right() -> None:
    assert said(check_accelerator, facts(machine(driver=None, cuda=None), CPU)) == [
        ("WHL005", "cpu-build", "ok")
    ]


def test_a_driver_tells_that_there_is_a_gpu() -> None:
    found = facts(unknown("linux-x86_64", driver="550.54.15"), CPU)
    (finding,) = run(check_accelerator, found)
    assert (finding.code, finding.cause, finding.status.value) == SELECTED
    assert finding.title.endswith("is a CPU build beside the NVIDIA driver 550.54.15")


def test_a_jetson_has_a_gpu() -> None:
    on = unknown("linux-aarch64")
    on = replace(on, host=replace(on.host, jetson="NVIDIA Jetson AGX Orin"))
    (finding,) = run(check_accelerator, facts(on, CPU))
    assert (finding.code, finding.cause, finding.status.value) == NO_L4T
    assert finding.remedy is not None
    assert finding.remedy.text.startswith("install torch from NVIDIA's index for this JetPack")


@pytest.mark.parametrize(
    ("name", "capability", "expected"),
    [
        ("Jetson Xavier NX", "7.2", NO_L4T),
        ("Jetson AGX Orin", "8.7", NO_L4T),
        ("Jetson AGX Thor", "11.0", SELECTED),  # builds for ARM servers hold code for it
        ("NVIDIA GH200 480GB", "9.0", SELECTED),
    ],
)
def test_a_board_that_is_only_stated_as_a_gpu(
    name: str, capability: str, expected: tuple[str, str, str]
) -> None:
    on = replace(unknown("linux-aarch64"), gpus=(gpu(name, capability),))
    (finding,) = run(check_accelerator, facts(on, CPU))
    assert (finding.code, finding.cause, finding.status.value) == expected


@pytest.mark.parametrize("platform", ["linux-aarch64", "windows-x86_64"])
@pytest.mark.parametrize(("is_loaded", "status"), [(None, "fail"), (False, "warn")])
def test_pypis_cpu_build_where_the_index_has_better(
    platform: str, is_loaded: bool | None, status: str
) -> None:
    on = unknown(platform)
    on = replace(on, driver=replace(on.driver, is_loaded=is_loaded))
    (finding,) = run(check_accelerator, facts(on, reported("2.9.1+cpu", "2.9.1")))
    assert (finding.code, finding.cause, finding.status.value) == (
        "WHL006",
        "cpu-wheel-selected",
        status,
    )
    assert finding.remedy is not None
    assert finding.remedy.command[:5] == (
        "python",
        "-m",
        "pip",
        "install",
        "torch==2.9.1+cu130",
    )


@pytest.mark.parametrize(
    ("platform", "version", "metadata"),
    [
        ("linux-aarch64", "2.9.1+cpu", "2.9.1+cpu"),  # taken from the CPU index on purpose
        ("linux-x86_64", "2.9.1+cpu", "2.9.1+cpu"),
        ("macos-aarch64", "2.9.1", "2.9.1"),  # no CUDA build exists
    ],
)
def test_a_cpu_build_that_was_chosen_is_no_warning(
    platform: str, version: str, metadata: str
) -> None:
    env = reported(version, metadata)
    assert said(check_accelerator, facts(unknown(platform), env)) == [("WHL005", "cpu-build", "ok")]


def test_condas_cpu_build_did_not_come_from_pypi() -> None:
    env = replace(reported("2.9.1+cpu", "2.9.1"), manager=Manager.CONDA)
    assert said(check_accelerator, facts(unknown("linux-aarch64"), env))[0][0] == "WHL005"


def test_uv_chose_the_cpu_build_by_itself() -> None:
    on = machine(H100, variables={"UV_TORCH_BACKEND": "auto"})
    assert said(check_accelerator, facts(on, CPU)) == [("WHL002", "resolver-auto-backend", "fail")]
    stated = machine(H100, variables={"UV_TORCH_BACKEND": "cpu"})
    assert said(check_accelerator, facts(stated, CPU)) == [SELECTED]


def test_a_required_gpu_makes_every_cpu_build_a_failure() -> None:
    found = facts(machine(driver=None, cuda=None), pinned("2.9.1+cpu"))
    (finding,) = run(check_accelerator, found, require_gpu=True)
    assert finding.title == "torch 2.9.1+cpu is a CPU build where a GPU is required"
