"""What a version's local label or a URL says about a torch build."""

from __future__ import annotations

import pytest
from packaging.version import Version

from envguard.facts.environment import (
    Accelerator,
    Label,
    label_of_url,
    label_of_version,
    parse_label,
)
from envguard.facts.versions import CudaVersion

CU128 = Label(Accelerator.CUDA, CudaVersion(12, 8))
CPU = Label(Accelerator.CPU)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("cu128", CU128),
        ("CU128", CU128),
        ("cu118.with.pypi.cudnn", Label(Accelerator.CUDA, CudaVersion(11, 8))),
        ("cpu", CPU),
        ("cpu.cxx11.abi", CPU),
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
        ("https://index.example/whl/cu126/torch-2.7.1%2bcpu-cp312-cp312-linux_x86_64.whl", CPU),
        ("https://index.example/whl/cpu/torch-2.7.1-cp312-none-macosx_11_0_arm64.whl", CPU),
        ("https://index.example/simple/torch/", Label()),
        ("https://index.example/mycu128/torch/", Label()),
    ],
)
def test_urls_name_it_in_the_file_or_the_folder(url: str, label: Label) -> None:
    assert label_of_url(url) == label
