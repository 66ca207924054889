"""None"""

from __future__ import annotations

from dataclasses import replace

import pytest

from envguard.checks.gpu import check_mig_instances, check_uuid_lists, check_visible_devices
from envguard.facts.gaps import GapReason
from envguard.facts.machine import Machine, MigDevice
from tests.checks.sample import (
    H100,
    distribution,
    environment,
    facts,
    gap,
    gpu,
    machine,
    run,
    said,
    torch_build,
)

TWO = (replace(H100, uuid="GPU-11111111-aaaa"), replace(H100, index=1, uuid="GPU-22222222-bbbb"))


def visible(text: str | None) -> Machine:
    return machine(*TWO, variables={} if text is None else {"CUDA_VISIBLE_DEVICES": text})


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("0,7,1", "7"),
        ("1,2", "2"),
        ("GPU-1111,GPU-9999", "GPU-9999"),
        ("0,gpu1", "gpu1"),
        ("0,1", None),
        ("0", None),
        ("GPU-1111,GPU-2222", None),
        ("0,-1", None),  # the usual end of a list
        ("7", None),  # every GPU is hidden: no-gpu-visible speaks of it
        ("", None),
        (None, None),
    ],
)
def test_entries_that_name_no_gpu(text: str | None, wrong: str | None) -> None:
    found = run(check_visible_devices, facts(visible(text)))
    if wrong is None:
        assert found == []
    else:
        (finding,) = found
        assert (finding.code, finding.status.value) == ("GPU012", "warn")
        assert finding.title == f"CUDA_VISIBLE_DEVICES names a GPU that does not exist: {wrong}"


def test_the_rest_of_the_list_is_lost() -> None:
    (finding,) = run(check_visible_devices, facts(visible("0,7,1")))
    assert "7, 1 is ignored" in finding.detail


def test_under_mig_numbers_count_instances() -> None:
    on = machine(
        replace(TWO[0], mig_enabled=True), TWO[1], variables={"CUDA_VISIBLE_DEVICES": "0,5"}
    )
    assert said(check_visible_devices, facts(on)) == []


MIG = gpu("NVIDIA A100-SXM4-40GB", "8.0", mig_enabled=True)
COUNT = (("gpu.count", "1", "nvml"),)


def test_a_gpu_in_mig_mode_without_instances() -> None:
    found = facts(machine(MIG), readings=COUNT)
    assert said(check_mig_instances, found) == [("GPU009", "no-gpu-visible", "warn")]
    (finding,) = run(check_mig_instances, found, require_gpu=True)
    assert finding.status.value == "fail"


def test_other_gpus_remain_beside_an_empty_mig_gpu() -> None:
    found = facts(machine(MIG, replace(H100, index=1)), readings=COUNT)
    assert said(check_mig_instances, found) == [("GPU009", "mig-without-instances", "warn")]


def test_instances_that_are_listed_or_not_readable_are_no_fault() -> None:
    filled = replace(MIG, mig_devices=(MigDevice("MIG-1"),))
    assert said(check_mig_instances, facts(machine(filled), readings=COUNT)) == []
    forbidden = gap("gpus[0].mig_devices", GapReason.FORBIDDEN, "nvml", "NO_PERMISSION")
    assert said(check_mig_instances, facts(machine(MIG), readings=COUNT, gaps=(forbidden,))) == []


def test_a_text_that_mentions_mig_mode_need_not_list_instances() -> None:
    found = facts(machine(MIG), readings=(("gpu.count", "1", "nvidia-smi -q"),))
    assert said(check_mig_instances, found) == []


def uuids(version: str, *, text: str = "MIG-4c60d78c") -> list[str]:
    on = machine(H100, variables={"CUDA_VISIBLE_DEVICES": text})
    torch = torch_build(version)
    env = environment(torch, distribution("torch", version), distribution("vllm", "0.10.0"))
    return [f.package or "" for f in run(check_uuid_lists, facts(on, env))]


def test_packages_that_read_numbers_only() -> None:
    assert uuids("1.13.1+cu117") == ["torch", "vllm"]
    assert uuids("2.7.1+cu128") == ["vllm"]
    assert uuids("1.13.1+cu117", text="0,1") == []
