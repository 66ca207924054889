from __future__ import annotations

from dataclasses import replace

import pytest

from envguard.checks.presence import check_gpu_visible
from envguard.facts.gaps import GapReason
from envguard.facts.machine import ContainerKind, Machine
from tests.checks.sample import H100, environment, facts, gap, machine, run, said, torch_build

NO_LIBCUDA = gap("driver.cuda", GapReason.ABSENT, "libcuda", "libcuda.so.1: cannot open")
NO_NVML = gap("gpus", GapReason.ABSENT, "nvml", "NVML_ERROR_LIBRARY_NOT_FOUND: cannot open")
DRV003 = ("DRV003", "no-gpu-visible", "warn")


def inside(variables: dict[str, str] | None = None, *, driver: str | None = "580.95.05") -> Machine:
    """A container that is given no GPU."""
    on = machine(driver=driver, cuda=None, container=ContainerKind.DOCKER, variables=variables)
    return replace(on, gpus=None if driver else ())


def test_a_gpu_that_is_there_needs_no_words() -> None:
    assert said(check_gpu_visible, facts()) == []


def test_a_container_that_is_given_no_gpu_of_the_host() -> None:
    found = facts(inside(), gaps=(NO_NVML, NO_LIBCUDA))
    (finding,) = run(check_gpu_visible, found)
    assert (finding.code, finding.cause, finding.status.value) == DRV003
    assert finding.detail.startswith(
        "the host's driver 580.95.05 is loaded, but this container is given no GPU of it"
    )
    assert finding.remedy is not None
    assert finding.remedy.text.startswith("start the container with its GPUs (--gpus all")
    assert run(check_gpu_visible, found, require_gpu=True)[0].status.value == "fail"


@pytest.mark.parametrize("value", ["void", "none", ""])
def test_the_containers_own_variable_says_that_no_gpu_is_given(value: str) -> None:
    found = facts(inside({"NVIDIA_VISIBLE_DEVICES": value}), gaps=(NO_NVML, NO_LIBCUDA))
    (finding,) = run(check_gpu_visible, found)
    assert finding.detail == f"this container is given no GPU: NVIDIA_VISIBLE_DEVICES={value!r}"


def test_capabilities_without_compute_leave_libcuda_out() -> None:
    variables = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility,video"}
    (finding,) = run(check_gpu_visible, facts(inside(variables), gaps=(NO_LIBCUDA,)))
    assert finding.detail == (
        "NVIDIA_DRIVER_CAPABILITIES='utility,video' leaves libcuda out of this container"
    )


def test_a_container_on_a_host_without_driver() -> None:
    (finding,) = run(check_gpu_visible, facts(inside(driver=None), gaps=(NO_NVML,)))
    assert finding.detail.startswith("no NVIDIA driver is loaded on this machine (nvml: ")
    assert finding.remedy is not None
    assert finding.remedy.text.startswith("install the NVIDIA driver on the host, and start")


def test_libraries_that_are_not_found_on_the_host_itself() -> None:
    on = replace(machine(cuda=None), gpus=None)
    (finding,) = run(check_gpu_visible, facts(on, gaps=(NO_LIBCUDA,)))
    assert finding.detail.startswith("the driver's libraries are not found on this machine")


def test_gpus_on_the_bus_that_the_driver_does_not_drive() -> None:
    on = machine()
    readings = (("gpu.count", "0", "nvml"), ("gpu.count", "2", "pci"))
    (finding,) = run(check_gpu_visible, facts(on, readings=readings))
    assert "2 NVIDIA GPUs are on the PCI bus" in finding.detail


def test_what_is_not_stated_is_not_missing() -> None:
    unstated = gap("gpus", GapReason.NOT_ASKED, "stated", "not stated")
    on = replace(machine(cuda=None, container=None), gpus=None)
    assert said(check_gpu_visible, facts(on, gaps=(unstated,))) == []


def test_a_jetson_has_no_nvml_and_still_a_gpu() -> None:
    on = replace(machine(), gpus=None)
    on = replace(on, host=replace(on.host, jetson="NVIDIA Jetson AGX Orin"))
    assert said(check_gpu_visible, facts(on, gaps=(NO_NVML,))) == []


def test_a_cpu_build_misses_no_gpu() -> None:
    env = environment(torch_build("2.9.1+cpu"))
    assert said(check_gpu_visible, facts(machine(), env)) == []


def test_hidden_gpus() -> None:
    hidden = replace(H100, is_visible=False)
    on = machine(hidden, variables={"CUDA_VISIBLE_DEVICES": "-1"})
    (finding,) = run(check_gpu_visible, facts(on))
    assert finding.detail == "every GPU is hidden by CUDA_VISIBLE_DEVICES='-1'"
