from __future__ import annotations

from dataclasses import replace

import pytest

from envguard.checks.nvml import check_libraries_match_kernel, check_sources_agree
from envguard.facts.gaps import GapReason
from envguard.facts.machine import ContainerKind
from tests.checks.sample import H100, facts, gap, machine, run, said

MISMATCH = ("NVM001", "nvml-kernel-userspace-mismatch", "fail")
NVML_SAYS = gap(
    "gpus",
    GapReason.MISMATCH,
    "nvml",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH: the NVML library and the loaded kernel module are of "
    "different releases",
)
HEALTHY = (
    ("driver.version", "580.95.05", "procfs"),
    ("driver.version", "580.95.05", "nvml"),
    ("driver.user_mode_version", "580.95.05", "libcuda"),
    ("driver.user_mode_version", "580.95.05", "nvml"),
    ("driver.cuda", "13.0", "libcuda"),
    ("driver.cuda", "13.0", "nvml"),
    ("gpu.count", "1", "pci"),
    ("gpu.count", "1", "nvml"),
)


def test_a_healthy_machine_has_nothing_to_say() -> None:
    found = facts(readings=HEALTHY)
    assert said(check_libraries_match_kernel, found) == []
    assert said(check_sources_agree, found) == []


def test_nvml_itself_says_that_versions_differ() -> None:
    on = replace(machine(driver="550.54.15", cuda="12.4"), gpus=None)
    (finding,) = run(check_libraries_match_kernel, facts(on, gaps=(NVML_SAYS,)))
    assert (finding.code, finding.status.value) == ("NVM001", "fail")
    assert "550.54.15" in finding.title
    assert finding.remedy is not None
    assert finding.remedy.text.startswith("reboot")
    assert ("machine.gpus", NVML_SAYS.detail, "nvml") in [
        (e.fact, e.value, e.origin) for e in finding.evidence
    ]


@pytest.mark.parametrize("probe", ["libcuda", "nvml"])
def test_libraries_of_another_release_than_the_module(probe: str) -> None:
    readings = (*HEALTHY[:2], ("driver.user_mode_version", "580.105.08", probe))
    (finding,) = run(check_libraries_match_kernel, facts(readings=readings))
    assert (finding.code, finding.cause, finding.status.value) == MISMATCH
    assert finding.detail.startswith("The libraries are of 580.105.08.")


def test_nvmls_own_version_has_the_cuda_major_in_front() -> None:
    readings = (*HEALTHY[:2], ("driver.user_mode_version", "13.580.95.05", "nvml"))
    assert said(check_libraries_match_kernel, facts(readings=readings)) == []
    readings = (*HEALTHY[:2], ("driver.user_mode_version", "12.575.57.08", "nvml"))
    assert said(check_libraries_match_kernel, facts(readings=readings)) == [MISMATCH]


def test_a_compatibility_libcuda_differs_on_purpose() -> None:
    on = machine(H100, driver="535.161.08", cuda="12.8", compat_libcuda="/usr/local/cuda/compat/l")
    readings = (("driver.user_mode_version", "570.86.15", "libcuda"),)
    assert said(check_libraries_match_kernel, facts(on, readings=readings)) == []


def test_wsl_has_libraries_of_another_numbering() -> None:
    on = machine(H100, driver="572.60", cuda="12.8")
    on = replace(on, host=replace(on.host, is_wsl=True))
    readings = (("driver.user_mode_version", "570.65", "nvml"),)
    assert said(check_libraries_match_kernel, facts(on, readings=readings)) == []


def test_cuda_says_that_versions_differ() -> None:
    readings = (("driver.cuda_init", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", "libcuda"),)
    assert said(check_libraries_match_kernel, facts(readings=readings)) == [MISMATCH]


def test_in_a_container_the_host_is_to_be_put_right() -> None:
    on = machine(H100, container=ContainerKind.DOCKER)
    (finding,) = run(check_libraries_match_kernel, facts(on, gaps=(NVML_SAYS,)))
    assert finding.remedy is not None
    assert finding.remedy.text.startswith("on the host: reboot")


def test_a_mismatch_of_something_else_is_no_driver_mismatch() -> None:
    odd = gap("gpus[0].fabric", GapReason.MISMATCH, "nvml", "NVML_ERROR_ARGUMENT_VERSION_MISMATCH")
    assert said(check_libraries_match_kernel, facts(gaps=(odd,))) == []


def test_sources_that_disagree_are_named_with_their_words() -> None:
    readings = (
        ("driver.version", "580.95.05", "collect_env"),
        ("driver.version", "570.133.20", "nvidia-smi"),
    )
    (finding,) = run(check_sources_agree, facts(readings=readings))
    assert (finding.code, finding.status.value) == ("NVM002", "warn")
    assert finding.title == (
        "sources disagree about driver.version: collect_env says 580.95.05, "
        "nvidia-smi says 570.133.20"
    )


def test_a_gpu_on_the_bus_that_the_driver_does_not_list() -> None:
    readings = (("gpu.count", "8", "pci"), ("gpu.count", "7", "nvml"))
    seven = [replace(H100, index=i) for i in range(7)]
    (finding,) = run(check_sources_agree, facts(machine(*seven), readings=readings))
    assert finding.title == "8 NVIDIA GPUs are in this machine, the driver lists 7"
    inside = machine(*seven, container=ContainerKind.DOCKER)
    assert said(check_sources_agree, facts(inside, readings=readings)) == []
