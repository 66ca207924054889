"""None"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.errors import MatrixError
from envguard.facts.machine import Platform
from envguard.facts.versions import Backend
from envguard.matrix.loader import Matrix

if TYPE_CHECKING:
    from tests.matrix.conftest import Break


@pytest.mark.parametrize(
    ("package", "version", "label", "platform", "is_labelled"),
    [
        ("torch", "2.5.1", "cu124", "linux-aarch64", False),
        ("torch", "2.7.1", "cu128", "linux-aarch64", True),
        ("torch", "2.5.1", "cu124", "linux-x86_64", True),
        ("torchvision", "0.24.0", "cu128", "linux-aarch64", False),
        ("torchvision", "0.24.0+cu128", "cu128", "linux-aarch64", False),
        ("torchvision", "0.24.1", "cu128", "linux-aarch64", True),
        ("torchvision", "0.24.0", "cpu", "linux-aarch64", True),
        ("torchaudio", "2.9.1", "cu130", "linux-aarch64", False),
        ("torch", "2.15.0", "cpu", "macos-aarch64", False),
    ],
)
def test_some_wheels_carry_no_label(
    matrix: Matrix, package: str, version: str, label: str, platform: str, *, is_labelled: bool
) -> None:
    found = matrix.index.is_labelled(
        package, Version(version), Backend.parse(label), Platform.parse(platform)
    )
    assert found is is_labelled


def test_both_hosts_serve_the_same_files(matrix: Matrix) -> None:
    assert matrix.index.holds_same_file("download.pytorch.org")
    assert matrix.index.holds_same_file("download-r2.pytorch.org")
    assert not matrix.index.holds_same_file("index.example")


def test_the_release_channel_is_the_default_template(matrix: Matrix) -> None:
    template = matrix.index.channels["release"]
    assert template == "https://download.pytorch.org/whl/{backend}"
    assert matrix.torch.index_url(Backend.parse("cu126"), template) == matrix.torch.index_url(
        Backend.parse("cu126")
    )


def test_platform_tags_change_with_2_7(matrix: Matrix) -> None:
    linux = Platform.parse("linux-x86_64")
    tags = {
        version: [
            row.tag
            for row in matrix.index.platform_tags
            if row.platform == linux and Version(version) in row.torch
        ]
        for version in ("2.6.0", "2.7.0")
    }
    assert tags == {"2.6.0": ["linux_x86_64"], "2.7.0": ["manylinux_2_28_x86_64"]}


def test_an_unknown_kind_of_builds_is_refused(broken: Break) -> None:
    matrix = Matrix.load(broken("index.toml", 'builds = "cuda"', 'builds = "rocm"'))
    with pytest.raises(MatrixError, match=r"index\.toml: unlabelled\[0\]\.builds: 'rocm' is none"):
        _ = matrix.index
