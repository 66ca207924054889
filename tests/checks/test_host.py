from __future__ import annotations

from dataclasses import replace

import pytest

from envguard.checks.host import (
    check_container_memory,
    check_locked_memory,
    check_shared_memory,
    size_words,
)
from envguard.facts.machine import ContainerKind, Machine
from tests.checks.sample import GIB, H100, environment, facts, machine, run, said

MIB = 1024**2


def limited(
    *, container: ContainerKind = ContainerKind.NONE, variables: dict[str, str] | None = None,
    **limits: int | None,
) -> Machine:  # fmt: skip
    on = machine(H100, container=container, variables=variables)
    return replace(on, limits=replace(on.limits, **limits))


@pytest.mark.parametrize(
    ("size", "warns"),
    [(64 * MIB, True), (16 * MIB, True), (64 * MIB + 1, False), (8 * GIB, False), (None, False)],
)
def test_shared_memory_of_a_container(size: int | None, warns: bool) -> None:
    found = facts(limited(container=ContainerKind.DOCKER, shm_bytes=size))
    expected = [("HST001", "shm-too-small", "warn")] if warns else []
    assert said(check_shared_memory, found) == expected


def test_the_remedy_is_for_the_kind_of_container() -> None:
    texts = []
    for kind in (ContainerKind.DOCKER, ContainerKind.KUBERNETES, ContainerKind.NONE):
        on = limited(container=kind, shm_bytes=64 * MIB)
        (finding,) = run(check_shared_memory, facts(on))
        assert finding.remedy is not None
        texts.append(finding.remedy.text)
    assert texts == [
        "start the container with --shm-size=8g or --ipc=host",
        "mount an emptyDir with medium: Memory on /dev/shm; it counts as the pod's memory",
        "mount it larger: mount -o remount,size=8G /dev/shm",
    ]


def test_without_torch_nobody_fills_shared_memory() -> None:
    env = replace(environment(), torch=None)
    assert said(check_shared_memory, facts(limited(shm_bytes=MIB), env)) == []


@pytest.mark.parametrize(
    ("limit", "variables", "warns"),
    [
        (8 * MIB, {"NCCL_IB_HCA": "mlx5_0"}, True),
        (8 * MIB, {"SLURM_JOB_NUM_NODES": "4"}, True),
        (8 * MIB, {"SLURM_JOB_NUM_NODES": "1"}, False),
        (8 * MIB, {"NCCL_IB_HCA": "mlx5_0", "NCCL_IB_DISABLE": "1"}, False),
        (8 * MIB, {}, False),
        (None, {"NCCL_IB_HCA": "mlx5_0"}, False),
        (GIB, {"NCCL_IB_HCA": "mlx5_0"}, False),
    ],
)
def test_locked_memory_counts_where_ranks_talk_over_rdma(
    limit: int | None, variables: dict[str, str], warns: bool
) -> None:
    found = facts(limited(memlock_bytes=limit, variables=variables))
    expected = [("HST002", "memlock-too-small", "warn")] if warns else []
    assert said(check_locked_memory, found) == expected


@pytest.mark.parametrize(
    ("limit", "warns"), [(32 * GIB, True), (80 * GIB, False), (400 * GIB, False), (None, False)]
)
def test_a_container_with_less_memory_than_one_gpu(limit: int | None, warns: bool) -> None:
    found = facts(limited(cgroup_bytes=limit))
    expected = [("HST003", "container-memory-limit", "warn")] if warns else []
    assert said(check_container_memory, found) == expected


def test_the_numbers_are_said() -> None:
    (finding,) = run(check_container_memory, facts(limited(cgroup_bytes=32 * GIB)))
    assert finding.title == (
        "processes here may use 32 GiB of the machine's 512 GiB, less than one GPU holds"
    )


@pytest.mark.parametrize(
    ("count", "words"), [(64 * MIB, "64 MiB"), (GIB, "1 GiB"), (3 * GIB // 2, "1.5 GiB")]
)
def test_sizes_in_sentences(count: int, words: str) -> None:
    assert size_words(count) == words
