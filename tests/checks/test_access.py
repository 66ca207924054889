from __future__ import annotations

from dataclasses import replace

import pytest

from envguard.checks.nvml import check_cuda_initialises, check_nvml_access, check_nvml_on_tegra
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.machine import ContainerKind, Machine
from tests.checks.sample import H100, environment, facts, gap, machine, run, said, torch_build

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
