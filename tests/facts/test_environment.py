"""Interpreters, torch builds and distributions as values."""

from __future__ import annotations

import pytest
from packaging.version import Version

from envguard.facts.environment import (
    Accelerator,
    Distribution,
    Environment,
    Interpreter,
    TorchBuild,
)
from envguard.facts.versions import CPU, Backend, CudaVersion


@pytest.mark.parametrize(
    ("version", "is_free_threaded", "tag"),
    [
        ("3.12.3", False, "cp312"),
        ("3.13.0rc2", True, "cp313t"),
        ("3.9.18", None, "cp39"),
        (None, None, None),
    ],
)
def test_the_python_tag_is_that_of_wheels(
    version: str | None, is_free_threaded: bool | None, tag: str | None
) -> None:
    parsed = Version(version) if version else None
    assert Interpreter(parsed, is_free_threaded=is_free_threaded).python_tag == tag


@pytest.mark.parametrize(
    ("accelerator", "cuda", "backend"),
    [
        (Accelerator.CPU, None, CPU),
        (Accelerator.CUDA, CudaVersion(12, 8), Backend(CudaVersion(12, 8))),
        (Accelerator.CUDA, None, None),
        (Accelerator.ROCM, None, None),
        (None, None, None),
    ],
)
def test_only_cuda_and_cpu_builds_have_a_backend(
    accelerator: Accelerator | None, cuda: CudaVersion | None, backend: Backend | None
) -> None:
    assert TorchBuild(accelerator=accelerator, cuda=cuda).backend == backend


def test_the_first_distribution_of_a_name_is_the_one() -> None:
    first = Distribution("torch", Version("2.6.0"), location="/a")
    second = Distribution("torch", Version("2.7.1"), location="/b")
    environment = Environment(distributions=(first, second))
    assert environment.distribution("torch") is first
    assert environment.distribution("numpy") is None
    assert Environment().distribution("torch") is None
