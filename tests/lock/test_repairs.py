"""Known breaks that show only in what was resolved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from envguard.facts.machine import Platform
from envguard.facts.versions import ComputeCapability, CudaVersion
from envguard.lock.constraints import Situation, find_repairs
from envguard.lock.pins import Artifact, Pin
from envguard.lock.request import LockRequest, Target, parse_words

if TYPE_CHECKING:
    from envguard.lock.constraints import Bounds
    from envguard.matrix.loader import Matrix


def pins(**versions: str) -> tuple[Pin, ...]:
    artifact = Artifact("x.whl", "https://i.example/x.whl", (("sha256", "00"),))
    return tuple(
        Pin(canonicalize_name(name), Version(version), "", "https://i.example", (artifact,))
        for name, version in versions.items()
    )


def repairs(
    matrix: Matrix,
    found: tuple[Pin, ...],
    *words: str,
    torch: str = "2.3.1",
    python: str = "3.11.0",
    known: tuple[str, ...] = (),
) -> Bounds:
    situation = Situation(
        Version(torch),
        CudaVersion.parse("12.1"),
        Version(python),
        "linux",
        ComputeCapability.parse("9.0"),
    )
    request = LockRequest(
        parse_words(words), Target(Platform.parse("linux-x86_64"), Version("3.11"))
    )
    return find_repairs(found, frozenset(known), situation, request, matrix)


def test_two_packages_that_do_not_go_together_are_parted(matrix: Matrix) -> None:
    found = repairs(matrix, pins(deepspeed="0.14.0", numpy="2.1.0"), known=("deepspeed", "numpy"))
    assert [str(item.requirement) for item in found.items] == ["deepspeed>=0.14.4"]
    assert found.items[0].reason == "DeepSpeed imports numpy.BUFSIZE, which numpy 2 does not have"
    assert [str(item.requirement) for item in found.items[0].otherwise] == ["numpy<2"]


def test_the_other_cure_is_taken_where_the_user_pins_the_first(matrix: Matrix) -> None:
    both = pins(deepspeed="0.14.0", numpy="2.1.0")
    found = repairs(matrix, both, "deepspeed==0.14.0", known=("deepspeed", "numpy"))
    assert [str(item.requirement) for item in found.items] == ["numpy<2"]


def test_no_cure_that_the_user_leaves_open_speaks_against_the_build(matrix: Matrix) -> None:
    both = pins(deepspeed="0.14.0", numpy="2.1.0")
    words = ("deepspeed==0.14.0", "numpy==2.1.0")
    found = repairs(matrix, both, *words, known=("deepspeed", "numpy"))
    assert found.items == ()
    assert found.against == (
        "deepspeed 0.14.0, numpy 2.1.0: DeepSpeed imports numpy.BUFSIZE, which numpy 2 does not "
        "have"
    )


def test_what_must_be_there_is_asked_for(matrix: Matrix) -> None:
    found = repairs(matrix, pins(deepspeed="0.18.0"), python="3.12.0", known=("deepspeed",))
    (item,) = found.items
    assert str(item.requirement) == "setuptools<85"
    assert item.is_asked_for
    with_setuptools = pins(deepspeed="0.18.0", setuptools="80.0")
    assert repairs(matrix, with_setuptools, python="3.12.0", known=("deepspeed",)).items == ()


def test_package_that_came_along_is_bounded_afterwards(matrix: Matrix) -> None:
    found = repairs(matrix, pins(numpy="2.1.0", torch="2.2.2"), torch="2.2.2")
    assert [str(item.requirement) for item in found.items] == ["numpy<2.0"]
    assert repairs(matrix, pins(numpy="1.26.4", torch="2.2.2"), torch="2.2.2").items == ()


@pytest.mark.parametrize("known", [(), ("numpy", "deepspeed", "transformers")])
def test_sound_resolution_needs_nothing(matrix: Matrix, known: tuple[str, ...]) -> None:
    sound = pins(deepspeed="0.19.8", numpy="2.1.0", transformers="5.0.4", torch="2.14.1")
    found = repairs(matrix, sound, torch="2.14.1", python="3.12.0", known=known)
    assert (found.items, found.against, found.notes) == ((), "", ())
