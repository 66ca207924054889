"""None"""

from __future__ import annotations

from dataclasses import replace

import pytest

from envguard.checks.nvml import (
    check_cuda_initialises,
    check_libraries_match_kernel,
    check_nvml_access,
    check_nvml_on_tegra,
    check_sources_agree,
)
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import ContainerKind, Machine
from tests.checks.sample import H100, environment, facts, gap, machine, run, said, torch_build

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


UNKNOWN_ERROR = gap("gpus", GapReason.UNREADABLE, "nvml", "NVML_ERROR_UNKNOWN: no reason")
SMI_SAYS = gap(
    "gpus", GapReason.UNREADABLE, "nvidia-smi", "Failed to initialize NVML: Unknown Error"
)
NO_PERMISSION = gap("gpus", GapReason.FORBIDDEN, "nvml", "NVML_ERROR_NO_PERMISSION: not for you")
LOST = ("NVM003", "nvml-cgroup-reload", "fail")


def blind(container: ContainerKind | None) -> Machine:
    """A machine whose GPUs are not known."""
    return replace(machine(container=container), gpus=None)


@pytest.mark.parametrize("said_instead", [UNKNOWN_ERROR, SMI_SAYS])
@pytest.mark.parametrize("container", [ContainerKind.DOCKER, ContainerKind.KUBERNETES, None])
def test_a_container_that_lost_its_gpus(said_instead: Gap, container: ContainerKind | None) -> None:
    found = facts(blind(container), gaps=(said_instead,))
    assert said(check_nvml_access, found) == [LOST]


def test_outside_a_container_no_device_rules_are_to_blame() -> None:
    found = facts(blind(ContainerKind.NONE), gaps=(UNKNOWN_ERROR,))
    assert said(check_nvml_access, found) == []


def test_forbidden_access_counts_only_where_a_container_is_known() -> None:
    inside = facts(blind(ContainerKind.DOCKER), gaps=(NO_PERMISSION,))
    assert said(check_nvml_access, inside) == [LOST]
    assert said(check_nvml_access, facts(blind(None), gaps=(NO_PERMISSION,))) == []


def test_one_lost_gpu_is_not_lost_access() -> None:
    words = "Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error"
    lost = gap("gpus", GapReason.UNREADABLE, "nvidia-smi", words)
    assert said(check_nvml_access, facts(blind(ContainerKind.DOCKER), gaps=(lost,))) == []


def test_gpus_that_are_listed_are_not_lost() -> None:
    on = machine(H100, container=ContainerKind.DOCKER)
    assert said(check_nvml_access, facts(on, gaps=(UNKNOWN_ERROR,))) == []


@pytest.mark.parametrize("probe", ["libcuda", "nvml"])
def test_a_driver_library_that_crashes(probe: str) -> None:
    crash = gap("driver.cuda", GapReason.CRASHED, probe, "python was ended by SIGSEGV")
    (finding,) = run(check_nvml_access, facts(gaps=(crash,)))
    assert (finding.code, finding.cause, finding.status.value) == (
        "NVM004",
        "libcuda-crash",
        "fail",
    )
    assert finding.title == f"asking the driver crashed ({probe})"


def test_a_driver_that_does_not_answer_leaves_it_open() -> None:
    late = gap("gpus", GapReason.TIMED_OUT, "nvml", "python gave no answer within 15 s")
    found = facts(blind(ContainerKind.DOCKER), gaps=(late, UNKNOWN_ERROR))
    assert said(check_nvml_access, found) == [("NVM005", "driver-not-answering", "unknown")]


def test_a_tool_that_fails_beside_nvml_keeps_nobody_from_the_gpu() -> None:
    for reason in (GapReason.TIMED_OUT, GapReason.CRASHED):
        odd = gap("driver.cuda", reason, "nvidia-smi", "nvidia-smi gave no answer within 15 s")
        assert said(check_nvml_access, facts(gaps=(odd,))) == []
        assert len(said(check_nvml_access, facts(blind(None), gaps=(odd,)))) == 1


def test_another_probes_time_limit_is_not_the_drivers() -> None:
    late = gap("toolkit.nvcc", GapReason.TIMED_OUT, "toolkit", "nvcc gave no answer within 15 s")
    assert said(check_nvml_access, facts(gaps=(late,))) == []


def test_nvml_is_absent_from_jetson_boards() -> None:
    absent = gap("gpus", GapReason.ABSENT, "nvml", "NVML_ERROR_LIBRARY_NOT_FOUND: no such file")
    on = blind(ContainerKind.NONE)
    jetson = replace(on, host=replace(on.host, jetson="NVIDIA Jetson AGX Orin"))
    assert said(check_nvml_on_tegra, facts(jetson, gaps=(absent,))) == [
        ("NVM006", "nvml-missing-tegra", "ok")
    ]
    assert said(check_nvml_on_tegra, facts(on, gaps=(absent,))) == []
    assert said(check_nvml_on_tegra, facts(jetson)) == []


@pytest.mark.parametrize(
    ("words", "fails"),
    [
        ("CUDA_SUCCESS (0)", False),
        ("CUDA_ERROR_UNKNOWN (999)", True),
        ("CUDA_ERROR_NO_DEVICE (100)", True),
        ("CUDA_ERROR_SYSTEM_NOT_READY (802)", False),  # the fabric check speaks of it
        ("CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)", False),  # the compat check does
    ],
)
def test_cuda_that_does_not_start(words: str, fails: bool) -> None:
    found = facts(readings=(("driver.cuda_init", words, "libcuda"),))
    expected = [("NVM007", "cuda-init-failed", "fail")] if fails else []
    assert said(check_cuda_initialises, found) == expected


def test_no_device_is_what_hidden_gpus_give() -> None:
    hidden = machine(replace(H100, is_visible=False))
    readings = (("driver.cuda_init", "CUDA_ERROR_NO_DEVICE (100)", "libcuda"),)
    assert said(check_cuda_initialises, facts(hidden, readings=readings)) == []


def available(word: str) -> tuple[tuple[str, str, str], ...]:
    return (("torch.cuda.is_available", word, "collect_env"),)


def test_torch_found_no_cuda_although_everything_fits() -> None:
    assert said(check_cuda_initialises, facts(readings=available("False"))) == [
        ("NVM007", "cuda-init-failed", "fail")
    ]
    assert said(check_cuda_initialises, facts(readings=available("True"))) == []


def test_a_driver_that_is_too_old_explains_why_torch_found_no_cuda() -> None:
    on = machine(H100, driver="470.182.03", cuda="11.4")
    assert said(check_cuda_initialises, facts(on, readings=available("False"))) == []
    unknown = machine(H100, driver=None, cuda=None)
    assert said(check_cuda_initialises, facts(unknown, readings=available("False"))) == []


def test_a_cpu_build_finds_no_cuda_anyway() -> None:
    env = environment(torch_build("2.9.1+cpu"))
    assert said(check_cuda_initialises, facts(env=env, readings=available("False"))) == []
