"""CUDA_VISIBLE_DEVICES: numbers, UUIDs, MIG instances, and when a number says nothing."""

from __future__ import annotations

import pytest

from envguard.facts.machine import Gpu, MigDevice
from envguard.facts.versions import ComputeCapability
from envguard.facts.visible import mark_visible

H100 = ComputeCapability(9, 0)
ALIKE = tuple(
    Gpu(i, "NVIDIA H100 80GB HBM3", H100, 85899345920, f"GPU-{i}{i}{i}{i}0000-aaaa")
    for i in range(4)
)
MIXED = (
    Gpu(0, "Tesla T4", ComputeCapability(7, 5), 16106127360, "GPU-aaaa1111"),
    Gpu(1, "NVIDIA A100", ComputeCapability(8, 0), 42949672960, "GPU-aabb2222"),
)


def seen(gpus: tuple[Gpu, ...], listed: str | None, order: str = "") -> list[bool | None]:
    environ = {} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}
    if order:
        environ["CUDA_DEVICE_ORDER"] = order
    return [gpu.is_visible for gpu in mark_visible(gpus, environ)]


def test_without_the_variable_all_are_visible() -> None:
    assert seen(ALIKE, None) == [True, True, True, True]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("0", [True, False, False, False]),
        ("3,1", [False, True, False, True]),
        (" 2 , 0 ", [True, False, True, False]),
        ("", [False, False, False, False]),
        ("-1", [False, False, False, False]),
        ("0,-1,1", [True, False, False, False]),
        ("0,9,1", [True, False, False, False]),
        ("1,none,2", [False, True, False, False]),
        ("NoDevFiles", [False, False, False, False]),
        ("1,1", [False, False, False, False]),
        ("0,1,2,3", [True, True, True, True]),
    ],
)
def test_numbers_select_among_gpus_that_are_alike(listed: str, expected: list[bool]) -> None:
    assert seen(ALIKE, listed) == expected


def test_a_number_on_a_mixed_machine_says_nothing_in_the_default_order() -> None:
    assert seen(MIXED, "0") == [None, None]
    assert seen(MIXED, "0", "FASTEST_FIRST") == [None, None]


def test_a_number_on_a_mixed_machine_counts_in_pci_order() -> None:
    assert seen(MIXED, "1", "PCI_BUS_ID") == [False, True]


def test_all_or_none_need_no_order() -> None:
    assert seen(MIXED, "1,0") == [True, True]
    assert seen(MIXED, "") == [False, False]


def test_gpus_that_could_not_be_read_are_not_alike() -> None:
    assert seen((Gpu(0), Gpu(1)), "0") == [None, None]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("GPU-aabb2222", [False, True]),
        ("GPU-aab", [False, True]),
        ("GPU-aa", [False, False]),  # fits both
        ("GPU-aaaa1111,GPU-aabb2222", [True, True]),
        ("GPU-aaaa1111,1", [True, False]),
        ("GPU-ffff", [False, False]),
    ],
)
def test_uuids_may_be_abbreviated_while_they_fit_one(listed: str, expected: list[bool]) -> None:
    assert seen(MIXED, listed) == expected


def test_an_unknown_uuid_among_the_gpus_leaves_it_open() -> None:
    assert seen((MIXED[0], Gpu(1)), "GPU-aaaa1111") == [None, None]


def test_a_mig_instance_selects_its_gpu() -> None:
    sliced = (
        Gpu(0, uuid="GPU-1111", mig_enabled=True, mig_devices=(MigDevice("MIG-aaaa"),)),
        Gpu(1, uuid="GPU-2222", mig_enabled=True, mig_devices=(MigDevice("MIG-bbbb"),)),
    )
    assert seen(sliced, "MIG-bbbb") == [False, True]
    assert seen(sliced, "MIG-GPU-1111/1/0") == [True, False]


def test_numbers_count_instances_where_mig_is_on() -> None:
    sliced = (Gpu(0, "A100", H100, 1, "GPU-1", mig_enabled=True), Gpu(1, "A100", H100, 1, "GPU-2"))
    assert seen(sliced, "0", "PCI_BUS_ID") == [None, None]
