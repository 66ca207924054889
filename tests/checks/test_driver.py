"""None"""

from __future__ import annotations

from dataclasses import replace

import pytest

from envguard.checks.driver import check_branch_life, check_fabric, check_kernel_module, check_vgpu
from envguard.facts.machine import Gpu, KernelModule
from tests.checks.sample import GEFORCE, H100, facts, gpu, machine, run, said

RTX5090 = gpu("NVIDIA GeForce RTX 5090", "12.0")
P100 = gpu("Tesla P100-PCIE-16GB", "6.0")
T4 = gpu("Tesla T4", "7.5", 1)
FLAVOUR = [("DRV009", "kernel-module-flavour", "fail")]
FABRIC = [("DRV010", "fabric-manager-missing", "fail")]


@pytest.mark.parametrize(
    ("flavour", "card", "fails"),
    [
        (KernelModule.PROPRIETARY, RTX5090, True),
        (KernelModule.OPEN, RTX5090, False),
        (KernelModule.PROPRIETARY, gpu("NVIDIA GH200 480GB", "9.0"), True),
        (KernelModule.PROPRIETARY, H100, False),
        (KernelModule.OPEN, P100, True),
        (KernelModule.PROPRIETARY, P100, False),
        (None, RTX5090, False),
        (KernelModule.PROPRIETARY, replace(RTX5090, capability=None), False),
    ],
)
def test_each_flavour_of_the_module_drives_its_gpus(
    flavour: KernelModule | None, card: Gpu, fails: bool
) -> None:
    found = facts(machine(card, kernel_module=flavour))
    assert said(check_kernel_module, found) == (FLAVOUR if fails else [])


def test_only_the_gpus_that_are_refused_are_named() -> None:
    on = machine(P100, T4, kernel_module=KernelModule.OPEN)
    (finding,) = run(check_kernel_module, facts(on))
    assert finding.gpus == (0,)
    assert finding.remedy is not None
    assert "proprietary kernel module" in finding.remedy.text


def test_switches_without_fabric_manager() -> None:
    on = machine(H100, nvswitches=4, has_fabric_manager=False)
    (finding,) = run(check_fabric, facts(on))
    assert (finding.code, finding.cause, finding.status.value) == FABRIC[0]
    assert finding.title == "this machine has 4 NVSwitches, and no fabric manager runs"
    assert finding.remedy is not None
    assert finding.remedy.text == "install nvidia-fabricmanager 580.95.05 and start it"


@pytest.mark.parametrize(("switches", "manager"), [(0, None), (4, True), (4, None), (None, None)])
def test_a_fabric_that_is_fine_or_not_there(switches: int | None, manager: bool | None) -> None:
    on = machine(H100, nvswitches=switches, has_fabric_manager=manager)
    assert said(check_fabric, facts(on)) == []


@pytest.mark.parametrize(
    ("state", "fails"), [("In Progress", True), ("Not Started", True), ("Completed", False)]
)
def test_gpus_that_wait_for_their_fabric(state: str, fails: bool) -> None:
    found = facts(readings=(("gpu[0].fabric", state, "nvml"),))
    assert said(check_fabric, found) == (FABRIC if fails else [])


def test_cuda_says_that_the_system_is_not_ready() -> None:
    readings = (("driver.cuda_init", "CUDA_ERROR_SYSTEM_NOT_READY (802)", "libcuda"),)
    assert said(check_fabric, facts(readings=readings)) == FABRIC


def test_cuda_that_starts_turns_the_fabric_into_a_warning() -> None:
    on = machine(H100, nvswitches=4, has_fabric_manager=False)
    readings = (("driver.cuda_init", "CUDA_SUCCESS (0)", "libcuda"),)
    assert said(check_fabric, facts(on, readings=readings))[0][2] == "warn"


def test_a_vgpu_without_a_licence() -> None:
    card = gpu("GRID A100-10C", "8.0", is_virtual=True)
    readings = (("gpu[0].licence", "Unlicensed (Restricted)", "nvidia-smi -q"),)
    assert said(check_vgpu, facts(machine(card), readings=readings)) == [
        ("DRV011", "vgpu-licence", "fail"),
        ("DRV012", "vgpu-feature-gap", "warn"),
    ]


def test_a_vgpu_whose_licence_is_not_known_says_so() -> None:
    card = gpu("GRID A100-10C", "8.0", is_virtual=True)
    (finding,) = run(check_vgpu, facts(machine(card)))
    assert finding.code == "DRV012"
    assert finding.detail.endswith("Whether it is licensed is not known: an unlicensed one fails.")
    licensed = (("gpu[0].licence", "Licensed", "nvml"),)
    (finding,) = run(check_vgpu, facts(machine(card), readings=licensed))
    assert "not known" not in finding.detail


def test_a_real_gpu_is_no_vgpu() -> None:
    assert said(check_vgpu, facts(machine(replace(H100, is_virtual=False)))) == []
    assert said(check_vgpu, facts(machine(H100))) == []


@pytest.mark.parametrize(
    ("driver", "card", "day", "warns"),
    [
        ("535.161.08", H100, "2026-11-29T00:00:00Z", True),
        ("535.161.08", H100, "2026-06-30T00:00:00Z", False),
        ("535.161.08", H100, "2026-07-01T00:00:00Z", True),
        ("535.161.08", H100, "", True),  # stated facts have no time: the matrix's date counts
        ("535.161.08", GEFORCE, "2026-11-29T00:00:00Z", False),
        ("580.95.05", H100, "2026-11-29T00:00:00Z", False),
        ("560.35.03", H100, "2026-11-29T00:00:00Z", False),
    ],
)
def test_a_branch_past_its_support_life(driver: str, card: Gpu, day: str, warns: bool) -> None:
    found = replace(facts(machine(card, driver=driver, cuda=None)), taken_at=day)
    expected = [("DRV013", "driver-branch-end-of-life", "warn")] if warns else []
    assert said(check_branch_life, found) == expected
