"""None"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from envguard.checks.host import (
    check_container_memory,
    check_library_path,
    check_locked_memory,
    check_preload,
    check_shared_memory,
    size_words,
)
from envguard.facts.machine import ContainerKind, Machine
from tests.checks.sample import (
    GIB,
    H100,
    distribution,
    environment,
    facts,
    machine,
    run,
    said,
    torch_build,
)

if TYPE_CHECKING:
    from envguard.facts.environment import Environment


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


CU124 = environment(
    torch_build("2.5.1+cu124"),
    distribution("torch", "2.5.1+cu124"),
    distribution("nvidia-nvjitlink-cu12", "12.4.127"),
    distribution("nvidia-cudnn-cu12", "9.1.0.70"),
)
FOLDER = "/usr/local/cuda-12.1/lib64"


def shadow(*names: str, env: Environment = CU124) -> list[tuple[str, str, str]]:
    on = machine(H100, variables={"LD_LIBRARY_PATH": FOLDER})
    files = tuple(f"{FOLDER}/{name}" for name in names)
    return said(check_library_path, facts(replace(on, library_path_files=files), env))


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("libnvJitLink.so.12.1.105", "fail"),  # libcusparse asks for symbols of 12.4 by name
        ("libnvJitLink.so.12.4.99", "warn"),
        ("libnvJitLink.so.12.4.127", None),
        ("libnvJitLink.so.12.8.61", None),
        ("libnvJitLink.so.13.0.39", None),  # another soname: the loader passes it over
        ("libnvJitLink.so.12", None),  # says nothing; what it links to is listed too
        ("libcudnn_ops.so.9.0.0", "warn"),
        ("libcudnn.so.8.9.7", None),
        ("libcublas.so.12.1.3.1", None),  # libtorch finds its own by DT_RPATH first
        ("libcudart.so.12.1.105", None),
    ],
)
def test_older_copies_before_those_of_the_wheels(name: str, status: str | None) -> None:
    expected = [("HST004", "ld-library-path-shadow", status)] if status else []
    assert shadow(name) == expected


def test_the_versions_are_said() -> None:
    on = machine(H100, variables={"LD_LIBRARY_PATH": FOLDER})
    path = f"{FOLDER}/libnvJitLink.so.12.1.105"
    (finding,) = run(check_library_path, facts(replace(on, library_path_files=(path,)), CU124))
    assert finding.detail.startswith(f"{path} is 12.1.105, the wheel's is 12.4.127.")


def test_without_wheels_there_is_nothing_to_shadow() -> None:
    bare = environment(torch_build("2.5.1+cu124"), distribution("torch", "2.5.1+cu124"))
    assert shadow("libnvJitLink.so.12.1.105", env=bare) == []
    cpu = environment(torch_build("2.5.1+cpu"), distribution("nvidia-nvjitlink-cu12", "12.4.127"))
    assert shadow("libnvJitLink.so.12.1.105", env=cpu) == []


def test_cuda_13_wheels_have_no_suffix() -> None:
    env = environment(torch_build("2.11.0+cu130"), distribution("nvidia-nvjitlink", "13.0.88"))
    assert shadow("libnvJitLink.so.13.0.39", env=env) == [
        ("HST004", "ld-library-path-shadow", "warn")
    ]


def test_a_path_that_was_not_listed_is_not_judged() -> None:
    assert said(check_library_path, facts(env=CU124)) == []


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        ("/usr/lib/libnccl.so.2", "nccl-shadowed"),
        (
            "/usr/local/cuda/lib64/libcudart.so.12 /usr/lib/libtcmalloc.so.4",
            "ld-library-path-shadow",
        ),
        ("/usr/lib/libtcmalloc.so.4:/usr/lib/libiomp5.so", None),
        ("", None),
    ],
)
def test_preloaded_libraries(value: str, cause: str | None) -> None:
    on = machine(H100, variables={"LD_PRELOAD": value})
    expected = [("HST005", cause, "warn")] if cause else []
    assert said(check_preload, facts(on)) == expected
