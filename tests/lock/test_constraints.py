"""What the matrix adds for the resolver, each bound with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from envguard.facts.machine import Platform
from envguard.facts.versions import ComputeCapability, CudaVersion
from envguard.lock.constraints import (
    Bounds,
    BuildTarget,
    Interval,
    bounds_for,
    find_repairs,
    interval_of,
    outside,
    runs_of,
)
from envguard.lock.pins import Artifact, Pin
from envguard.lock.request import LockRequest, Target, parse_arguments

if TYPE_CHECKING:
    from envguard.matrix.loader import Matrix


def situation(
    torch: str,
    cuda: str = "12.6",
    python: str = "3.12.0",
    capability: str = "9.0",
    system: str = "linux",
) -> BuildTarget:
    return BuildTarget(
        Version(torch),
        CudaVersion.parse(cuda) if cuda else None,
        Version(python),
        system,
        ComputeCapability.parse(capability),
    )


def ask(matrix: Matrix, found: BuildTarget, *words: str) -> Bounds:
    target = Target(Platform.parse("linux-x86_64"), Version("3.12"))
    request = LockRequest(parse_arguments(words), target)
    return bounds_for({word.split("=")[0].split("<")[0] for word in words}, found, request, matrix)


def texts(bounds: Bounds) -> list[str]:
    return [str(item.requirement) for item in bounds.items]


def test_numpy_2_does_not_go_with_a_torch_compiled_for_numpy_1(matrix: Matrix) -> None:
    found = ask(matrix, situation("2.2.2", "12.1", "3.11.0"), "numpy")
    assert texts(found) == ["numpy<2.0"]
    assert found.items[0].reason == "This torch was compiled for numpy 1"
    assert found.items[0].is_needed
    assert texts(ask(matrix, situation("2.3.0", "12.1", "3.11.0"), "numpy")) == []


def test_numpy_2_came_later_to_windows(matrix: Matrix) -> None:
    on_windows = situation("2.4.0", "12.4", system="windows")
    assert texts(ask(matrix, on_windows, "numpy")) == ["numpy<2.0"]
    assert texts(ask(matrix, situation("2.4.0", "12.4"), "numpy")) == []


def test_deepspeed_is_new_enough_for_torch_to_import_and_to_build_with(matrix: Matrix) -> None:
    found = ask(matrix, situation("2.14.1"), "deepspeed")
    assert texts(found) == ["deepspeed>=0.14.4", "deepspeed>=0.19.5"]
    assert [item.is_needed for item in found.items] == [True, False]
    assert "elastic agent" in found.items[0].reason
    assert "C++20" in found.items[1].reason
    assert found.items[0].source.startswith("https://github.com/deepspeedai/DeepSpeed/")


def test_deepspeed_has_to_know_the_python(matrix: Matrix) -> None:
    found = ask(matrix, situation("2.15.0", "13.0", "3.14.0"), "deepspeed")
    assert "deepspeed>=0.18.6" in texts(found)


def test_pin_of_the_user_that_cannot_work_speaks_against_the_build(matrix: Matrix) -> None:
    found = ask(matrix, situation("2.14.1"), "deepspeed==0.14.0")
    assert found.against == (
        "the request says deepspeed==0.14.0, but DeepSpeed imports a name that torch's elastic "
        "agent no longer has"
    )
    assert ask(matrix, situation("2.3.1", "12.1"), "deepspeed==0.14.0").against == ""


def test_pin_that_only_some_uses_suffer_from_is_remarked_on(matrix: Matrix) -> None:
    found = ask(matrix, situation("2.14.1"), "deepspeed==0.18.9")
    assert found.against == ""
    assert texts(found) == ["deepspeed>=0.14.4"]
    assert found.notes == (
        "deepspeed==0.18.9: DeepSpeed compiles its ops with C++17, this torch's headers demand "
        "C++20",
    )


def test_bad_releases_between_good_ones_are_left_out_one_by_one(matrix: Matrix) -> None:
    """Only a table that holds every release can do so; an older good one stays within reach."""
    found = texts(ask(matrix, situation("2.3.1", "12.1", "3.11.0"), "deepspeed"))
    assert "deepspeed!=0.18.7,!=0.18.8" in found
    assert "deepspeed>=0.8.2" in found
    left_out = {part for text in found for part in text.removeprefix("deepspeed").split(",")}
    assert {"!=0.18.9", "!=0.19.7"} <= left_out
    assert not {"!=0.19.8", "!=0.18.2"} & left_out


def test_bounds_of_the_user_choose_between_good_stretches(matrix: Matrix) -> None:
    found = situation("2.3.1", "12.1", "3.11.0")
    older = texts(ask(matrix, found, "deepspeed<0.18.8"))
    assert "deepspeed<0.18.7" in older
    assert not [text for text in older if "0.19" in text]


@pytest.mark.parametrize(
    ("package", "cuda", "bound"),
    [
        ("vllm", "12.6", "vllm<0.20.0"),
        ("sglang-kernel", "12.6", "sglang-kernel<0.4.2"),
        ("sglang-kernel", "13.0", "sglang-kernel>=0.4.2"),
        ("bitsandbytes", "13.0", "bitsandbytes>=0.48.0"),
    ],
)
def test_companions_have_torchs_cuda_major(
    matrix: Matrix, package: str, cuda: str, bound: str
) -> None:
    assert bound in texts(ask(matrix, situation("2.13.0", cuda), package))


def test_companions_from_the_torch_index_are_not_bounded_by_cuda(matrix: Matrix) -> None:
    found = texts(ask(matrix, situation("2.14.1", "12.6"), "torchvision", "torchao", "xformers"))
    assert "torchao>=0.13.0" in found
    assert not [text for text in found if "torchvision" in text or "torchao<" in text]


def test_package_has_to_serve_the_gpus(matrix: Matrix) -> None:
    found = ask(matrix, situation("2.10.0", "12.6", capability="7.0"), "xformers")
    (item,) = found.items
    assert str(item.requirement) == "xformers<0.0.31"
    assert item.reason == "xformers >=0.0.31 serves compute capability 7.5 and above, not 7.0"


def test_transformers_has_to_accept_torch(matrix: Matrix) -> None:
    found = ask(matrix, situation("2.3.1", "12.1", "3.11.0"), "transformers")
    needed = {str(item.requirement): item.reason for item in found.items if item.is_needed}
    assert len(needed) == 2
    assert "as if torch were not installed" in needed["transformers<5.1"]
    assert "tensor parallelism" in needed["transformers>=4.53"]


def test_torchcodec_is_compiled_for_a_torch(matrix: Matrix) -> None:
    assert texts(ask(matrix, situation("2.8.0", "12.6"), "torchcodec")) == [
        "torchcodec>=0.6.0",
        "torchcodec<0.8.0",
    ]


def test_old_extension_builder_wants_an_old_setuptools(matrix: Matrix) -> None:
    found = ask(matrix, situation("2.1.2", "12.1", "3.11.0"), "setuptools")
    assert texts(found) == ["setuptools>=71.0", "setuptools<82"]
    assert not any(item.is_needed for item in found.items)


def test_cpu_build_has_no_cuda_to_differ_from(matrix: Matrix) -> None:
    assert texts(ask(matrix, situation("2.13.0", ""), "vllm", "bitsandbytes")) == []


def test_package_without_a_table_is_not_bounded(matrix: Matrix) -> None:
    assert ask(matrix, situation("2.14.1"), "fastapi") == Bounds()


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
    situation = BuildTarget(
        Version(torch),
        CudaVersion.parse("12.1"),
        Version(python),
        "linux",
        ComputeCapability.parse("9.0"),
    )
    request = LockRequest(
        parse_arguments(words), Target(Platform.parse("linux-x86_64"), Version("3.11"))
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


def version_texts(intervals: list[Interval]) -> list[str]:
    return [",".join(sorted(str(interval.specifier).split(","))) for interval in intervals]


def stretch(text: str) -> Interval:
    found = interval_of(SpecifierSet(text))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("bad", "rest"),
    [
        (["<0.8.2"], [">=0.8.2"]),
        ([">=82"], ["<82"]),
        ([">=0.7.0,<0.14.1", ">=0.14.1,<0.14.4"], [">=0.14.4", "<0.7.0"]),
        (["==0.18.6"], [">0.18.6", "<0.18.6"]),
        (["==5.1.*"], [">=5.2", "<5.1"]),
        ([">=0.19,<=0.19.3"], [">0.19.3", "<0.19"]),
        (["<2", ">=1"], []),
        ([""], []),
        ([], [""]),
    ],
)
def test_what_is_outside_is_said_newest_first(bad: list[str], rest: list[str]) -> None:
    assert version_texts(outside(stretch(text) for text in bad)) == rest


@pytest.mark.parametrize("text", ["!=1.0", "~=1.2", "===1.0"])
def test_what_is_not_one_stretch_is_none(text: str) -> None:
    assert interval_of(SpecifierSet(text)) is None


def test_neighbouring_releases_are_one_stretch_up_to_the_next_good_one() -> None:
    known = [Version(text) for text in ("1", "2", "3", "4", "5")]
    bad = {Version("1"), Version("3"), Version("4"), Version("5")}
    assert version_texts(runs_of(bad, known)) == ["<2", ">=3"]
    assert version_texts(runs_of({Version("2"), Version("3")}, known)) == ["<4,>=2"]


BOUNDS = st.sampled_from(["<", "<=", ">", ">=", "=="])
VERSIONS = st.integers(0, 6).map(str)
STRETCHES = st.lists(st.tuples(BOUNDS, VERSIONS), min_size=1, max_size=2).map(
    lambda pairs: ",".join(f"{operator}{version}" for operator, version in pairs)
)


@given(st.lists(STRETCHES, max_size=4), st.integers(0, 6))
def test_a_version_is_in_a_stretch_or_outside_of_all(bad: list[str], number: int) -> None:
    version = Version(str(number))
    is_bad = any(SpecifierSet(text).contains(version) for text in bad)
    rooms = outside(stretch(text) for text in bad)
    assert any(room.contains(version) for room in rooms) == (not is_bad)
    assert any(room.specifier.contains(version) for room in rooms) == (not is_bad)
