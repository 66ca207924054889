"""What was resolved is compared with what was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from envguard.errors import ToolError
from envguard.facts.versions import Backend
from envguard.lock.pins import Artifact, Pin
from envguard.lock.solve import check_labels
from tests.lock.conftest import LINUX

if TYPE_CHECKING:
    from envguard.matrix.loader import Matrix


def pin(name: str, version: str) -> Pin:
    artifact = Artifact(f"{name}.whl", f"https://i.example/{name}.whl", (("sha256", "00"),))
    return Pin(canonicalize_name(name), Version(version), "", "https://i.example", (artifact,))


@pytest.mark.parametrize(
    ("pins", "said"),
    [
        ((pin("torch", "2.8.0+cu128"),), "torch 2.8.0+cu128, which is no build for cu126"),
        ((pin("torch", "2.8.0"),), "torch 2.8.0, which is no build for cu126"),
        ((pin("torch", "2.9.1+cu126"),), "expected 2.8.0+cu126"),
        ((), "torch None, expected 2.8.0+cu126"),
        (
            (pin("torch", "2.8.0+cu126"), pin("torchvision", "0.23.0+cu128")),
            "torchvision 0.23.0+cu128, which is no build for cu126",
        ),
    ],
)
def test_other_build_than_the_chosen_is_found_out(
    matrix: Matrix, pins: tuple[Pin, ...], said: str
) -> None:
    build = matrix.torch.build(Version("2.8.0"), Backend.parse("cu126"), LINUX)
    assert build is not None
    with pytest.raises(ToolError) as caught:
        check_labels(pins, build)
    assert said in caught.value.message
