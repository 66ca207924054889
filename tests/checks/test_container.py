from __future__ import annotations

from dataclasses import replace

import pytest

from envguard.checks.container import (
    check_compat_libcuda,
    check_image_libraries,
    check_wsl_libcuda,
)
from envguard.checks.driver import check_driver_serves_cuda
from envguard.checks.nvml import check_libraries_match_kernel
from envguard.facts.machine import ContainerKind, Gpu, Machine
from tests.checks.sample import (
    GEFORCE,
    H100,
    environment,
    facts,
    gpu,
    machine,
    run,
    said,
    torch_build,
)

COMPAT = "/usr/local/cuda/compat/libcuda.so.570.86.15"
REFUSED = (("driver.cuda_init", "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804)", "libcuda"),)
STARTED = (("driver.cuda_init", "CUDA_SUCCESS (0)", "libcuda"),)
ON_GEFORCE = ("CTR001", "compat-libcuda-in-image-on-geforce", "fail")
WORKSTATION = gpu("NVIDIA RTX A6000", "8.6")


def compat(*gpus: Gpu, driver: str = "535.161.08", cuda: str = "12.8") -> Machine:
    """A container with cuda-compat."""
    return machine(
        *gpus,
        driver=driver,
        cuda=cuda,
        container=ContainerKind.DOCKER,
        compat_libcuda=COMPAT,
    )


def test_a_compatibility_libcuda_on_geforce_fails() -> None:
    (finding,) = run(check_compat_libcuda, facts(compat(GEFORCE)))
    assert (finding.code, finding.cause, finding.status.value) == ON_GEFORCE
    assert finding.gpus == (0,)
    assert COMPAT in finding.detail
    assert ("driver.compat_libcuda", COMPAT) in [(e.fact, e.value) for e in finding.evidence]


def test_cuda_newer_than_the_driver_can_offer_betrays_it() -> None:
    on = machine(GEFORCE, driver="460.80", cuda="11.3", container=None)
    (finding,) = run(check_compat_libcuda, facts(on))
    assert (finding.code, finding.cause, finding.status.value) == ON_GEFORCE
    assert "CUDA 11.3 is offered, and driver R460 itself offers 11.2" in finding.detail


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        ("460.80", "11.2"),
        ("565.57.01", "12.8"),  # what R565 offers is not sourced
        ("585.10.01", "13.4"),  # a branch that is not recorded
    ],
)
def test_a_driver_that_may_offer_it_is_not_suspected(driver: str, cuda: str) -> None:
    on = machine(GEFORCE, driver=driver, cuda=cuda)
    assert said(check_compat_libcuda, facts(on)) == []


def test_wsl_drivers_have_other_numbers() -> None:
    on = machine(GEFORCE, driver="572.60", cuda="13.0")
    on = replace(on, host=replace(on.host, is_wsl=True))
    assert said(check_compat_libcuda, facts(on)) == []


def test_cuda_that_starts_all_the_same_is_a_warning() -> None:
    (finding,) = run(check_compat_libcuda, facts(compat(GEFORCE), readings=STARTED))
    assert (finding.code, finding.status.value) == ("CTR001", "warn")


def test_a_workstation_card_may_be_a_supported_one() -> None:
    (finding,) = run(check_compat_libcuda, facts(compat(WORKSTATION)))
    assert (finding.code, finding.status.value) == ("CTR001", "warn")
    refused = facts(compat(WORKSTATION), readings=REFUSED)
    assert said(check_compat_libcuda, refused) == [ON_GEFORCE]


def test_a_data_center_gpu_with_a_base_branch_is_fine() -> None:
    supported = facts(compat(H100, driver="550.54.15", cuda="13.0"))
    assert said(check_compat_libcuda, supported) == []


def test_a_branch_that_the_package_is_not_made_for() -> None:
    on = compat(H100, driver="545.23.08", cuda="13.0")
    (finding,) = run(check_compat_libcuda, facts(on))
    assert (finding.code, finding.cause, finding.status.value) == (
        "CTR002",
        "forward-compat-base-branch",
        "warn",
    )
    assert finding.detail == (
        "NVIDIA names R535, R550, R565, R570, R575 as the drivers that it works on."
    )
    assert said(check_compat_libcuda, facts(on, readings=STARTED)) == []


def test_a_compatibility_libcuda_older_than_the_driver_fails() -> None:
    on = compat(H100, driver="595.58.03", cuda="13.0")
    assert said(check_compat_libcuda, facts(on)) == [
        ("CTR002", "forward-compat-base-branch", "fail")
    ]


def test_forward_compatibility_is_no_fault_where_it_is_supported() -> None:
    env = environment(torch_build("2.7.1+cu128"))
    assert said(check_driver_serves_cuda, facts(compat(H100), env)) == [
        ("DRV007", "forward-compat-libcuda", "ok")
    ]
    nameless = replace(H100, name=None)
    assert said(check_driver_serves_cuda, facts(compat(nameless), env))[0][2] == "ok"
    no_gpus = replace(compat(), gpus=None)
    assert said(check_driver_serves_cuda, facts(no_gpus, env))[0][2] == "warn"


def test_forward_compatibility_on_geforce_is_said_once() -> None:
    env = environment(torch_build("2.7.1+cu128"))
    assert said(check_driver_serves_cuda, facts(compat(GEFORCE), env)) == []


def image_of(mount: str) -> tuple[tuple[str, str, str], ...]:
    path = "/usr/lib/x86_64-linux-gnu/libcuda.so.570.133.20"
    return (
        ("driver.libcuda", path, "libcuda"),
        ("driver.libcuda_mount", mount, "mountinfo"),
        ("driver.user_mode_version", "570.133.20", "libcuda"),
        ("driver.version", "580.95.05", "procfs"),
    )


def test_a_libcuda_that_is_part_of_the_image() -> None:
    found = facts(machine(H100, container=ContainerKind.DOCKER), readings=image_of("/"))
    (finding,) = run(check_image_libraries, found)
    assert (finding.code, finding.cause, finding.status.value) == (
        "CTR003",
        "driver-libs-baked-in-image",
        "fail",
    )
    assert "libcuda.so.570.133.20 is part of the image" in finding.detail
    assert said(check_libraries_match_kernel, found) == []


def test_a_libcuda_that_the_host_mounts_is_the_hosts_affair() -> None:
    mount = "/usr/lib/x86_64-linux-gnu/libcuda.so.570.133.20"
    found = facts(machine(H100, container=ContainerKind.DOCKER), readings=image_of(mount))
    assert said(check_image_libraries, found) == []
    assert said(check_libraries_match_kernel, found) == [
        ("NVM001", "nvml-kernel-userspace-mismatch", "fail")
    ]


def test_a_libcuda_in_the_image_that_matches_does_no_harm() -> None:
    on = machine(H100, driver="570.133.20", cuda="12.8", container=ContainerKind.DOCKER)
    assert said(check_image_libraries, facts(on, readings=image_of("/"))) == []


def wsl(path: str, version: str | None) -> list[tuple[str, str, str]]:
    on = machine(GEFORCE, driver="572.60", cuda="12.8")
    on = replace(on, host=replace(on.host, is_wsl=True))
    readings = [("driver.libcuda", path, "libcuda")]
    readings += [("driver.user_mode_version", version, "libcuda")] if version else []
    return said(check_wsl_libcuda, facts(on, readings=tuple(readings)))


def test_a_linux_driver_in_front_of_the_one_of_wsl() -> None:
    path = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15"
    assert wsl(path, "550.54.15") == [("CTR004", "wsl-driver-shadow", "fail")]
    assert wsl("/usr/lib/wsl/lib/libcuda.so.1", None) == []
    assert wsl("/usr/lib/wsl/drivers/nv_dispi.inf_amd64/libcuda.so.1.1", None) == []
    assert wsl("/srv/mounted/libcuda.so.1", None) == []


def test_outside_wsl_a_linux_driver_is_right() -> None:
    readings = (
        ("driver.libcuda", "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "libcuda"),
        ("driver.user_mode_version", "580.95.05", "libcuda"),
    )
    assert said(check_wsl_libcuda, facts(readings=readings)) == []
