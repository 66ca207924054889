"""Interpreters, torch builds and distributions as values."""

from __future__ import annotations

import pytest
from packaging.version import Version

from envguard.facts.environment import (
    Accelerator,
    Distribution,
    Environment,
    Interpreter,
    Label,
    TorchBuild,
    label_of_url,
    label_of_version,
    parse_label,
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


CU128 = Label(Accelerator.CUDA, CudaVersion(12, 8))
CPU_LABEL = Label(Accelerator.CPU)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("cu128", CU128),
        ("CU128", CU128),
        ("cu118.with.pypi.cudnn", Label(Accelerator.CUDA, CudaVersion(11, 8))),
        ("cpu", CPU_LABEL),
        ("cpu.cxx11.abi", CPU_LABEL),
        ("rocm6.3", Label(Accelerator.ROCM)),
        ("xpu", Label(Accelerator.XPU)),
        ("git1a2b3c", Label()),
        ("nv24.5", Label()),
        ("cuda", Label()),
        ("", Label()),
    ],
)
def test_labels_name_an_accelerator(text: str, label: Label) -> None:
    assert parse_label(text) == label


def test_a_version_without_label_says_nothing() -> None:
    assert label_of_version(Version("2.7.1")) == Label()
    assert label_of_version(None) == Label()
    assert label_of_version(Version("2.7.1+cu128")) == CU128


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("https://index.example/whl/cu128", CU128),
        ("https://index.example/whl/cu128/torch/", CU128),
        (
            "https://index.example/whl/torch-2.7.1%2Bcu128-cp312-cp312-manylinux_2_28_x86_64.whl",
            CU128,
        ),
        (
            "https://index.example/whl/cu126/torch-2.7.1%2bcpu-cp312-cp312-linux_x86_64.whl",
            CPU_LABEL,
        ),
        ("https://index.example/whl/cpu/torch-2.7.1-cp312-none-macosx_11_0_arm64.whl", CPU_LABEL),
        ("https://index.example/simple/torch/", Label()),
        ("https://index.example/mycu128/torch/", Label()),
    ],
)
def test_urls_name_it_in_the_file_or_the_folder(url: str, label: Label) -> None:
    assert label_of_url(url) == label
