"""None"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.errors import MatrixError
from envguard.facts.machine import KernelModule
from envguard.facts.versions import ComputeCapability
from envguard.matrix.loader import Matrix

if TYPE_CHECKING:
    from tests.matrix.conftest import Break


OPEN, PROPRIETARY = KernelModule.OPEN, KernelModule.PROPRIETARY


@pytest.mark.parametrize(
    ("flavour", "capability", "name", "drives"),
    [
        (OPEN, "6.1", "NVIDIA GeForce GTX 1080", False),
        (OPEN, "7.0", "Tesla V100-SXM2-16GB", False),
        (OPEN, "7.5", "Tesla T4", True),
        (OPEN, "12.0", "NVIDIA GeForce RTX 5090", True),
        (PROPRIETARY, "7.0", "Tesla V100-SXM2-16GB", True),
        (PROPRIETARY, "9.0", "NVIDIA H100 80GB HBM3", True),
        (PROPRIETARY, "9.0", "NVIDIA GH200 480GB", False),
        (PROPRIETARY, "10.0", "NVIDIA B200", False),
        (PROPRIETARY, "12.1", "NVIDIA GB10", False),
    ],
)
def test_gpus_that_a_kernel_module_drives(
    matrix: Matrix, flavour: KernelModule, capability: str, name: str, drives: bool
) -> None:
    row = matrix.machines.limit_of(flavour, ComputeCapability.parse(capability), name)
    assert (row is None) is drives


@pytest.mark.parametrize(
    ("package", "version", "concerned"),
    [
        ("torch", "1.12.1+cu116", False),
        ("torch", "1.13.1+cu117", True),
        ("torch", "2.0.0+cu117", False),
        ("vllm", "0.20.1", True),
        ("vllm", "0.21.0", False),
        ("deepspeed", "0.17.6", True),
    ],
)
def test_releases_that_cannot_read_uuids(
    matrix: Matrix, package: str, version: str, concerned: bool
) -> None:
    (row,) = [row for row in matrix.machines.uuid_lists if row.package == package]
    assert row.concerns(Version(version)) is concerned


def test_docker_gives_64_mebibytes_of_shared_memory(matrix: Matrix) -> None:
    assert matrix.machines.size("docker-shm") == 64 * 1024 * 1024


def test_a_rule_names_its_source(matrix: Matrix) -> None:
    source = matrix.machines.source("forward-compat")
    assert source.url == (
        "https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html"
    )


def test_versions_that_are_no_specifier_are_refused(broken: Break) -> None:
    folder = broken("machines.toml", '">=1.13,<2.0"', '"since 1.13"')
    with pytest.raises(MatrixError, match=r"machines\.toml: uuid_list\[1\]\.versions: "):
        _ = Matrix.load(folder).machines
