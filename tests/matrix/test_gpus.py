"""None"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envguard.errors import MatrixError
from envguard.facts.versions import ComputeCapability
from envguard.matrix.gpus import parse_gpu_name
from envguard.matrix.loader import Matrix
from envguard.matrix.rows import MarketSegment

if TYPE_CHECKING:
    from tests.matrix.conftest import Break


@pytest.mark.parametrize(
    ("name", "core", "brands", "decorations"),
    [
        ("NVIDIA A100-SXM4-80GB", ["a100"], set(), {"sxm4", "80g"}),
        ("NVIDIA GeForce RTX 3090 Ti", ["3090", "ti"], {"geforce", "rtx"}, set()),
        ("rtx3090ti", ["3090", "ti"], {"rtx"}, set()),
        ("GeForce RTX 4070 Ti SUPER", ["4070", "super", "ti"], {"geforce", "rtx"}, set()),
        ("RTX 6000 Ada Generation", ["6000", "ada"], {"rtx"}, {"generation"}),
        ("TITAN X (Pascal)", ["pascal", "titan", "x"], set(), set()),
        ("NVIDIA GH200 480GB", ["gh200"], set(), {"480g"}),
        ("GeForce GTX 1050 3 GB Max-Q", ["1050"], {"geforce", "gtx"}, {"3g", "maxq"}),
        ("NVIDIA(R) Tesla(TM) T4", ["t4"], {"tesla"}, set()),
        ("8x A100 80 GiB", ["a100"], set(), {"80g"}),
        ("mx450", ["450", "mx"], set(), set()),
    ],
)
def test_a_name_is_taken_apart(
    name: str, core: list[str], brands: set[str], decorations: set[str]
) -> None:
    parts = parse_gpu_name(name)
    assert list(parts.core) == core
    assert parts.brands == brands
    assert parts.decorations == decorations


@pytest.mark.parametrize("name", ["", "NVIDIA", "GeForce RTX", "GPU", "80GB", "MIG 1g.5gb", "?!"])
def test_a_text_without_product_has_no_core(name: str) -> None:
    assert parse_gpu_name(name).core == ()


@pytest.mark.parametrize(
    ("name", "is_virtual"),
    [
        ("GRID A100-10C", True),
        ("GRID A100-1-5C", True),
        ("NVIDIA A40-48Q", True),
        ("GRID T4-1B", True),
        ("A100-PCIE-40GB", False),
        ("P104-100", False),
        ("GeForce 940A", False),
    ],
)
def test_vgpu_profiles_are_recognised(name: str, *, is_virtual: bool) -> None:
    assert parse_gpu_name(name).is_virtual is is_virtual


@given(st.text())
def test_any_text_can_be_taken_apart(name: str) -> None:
    parts = parse_gpu_name(name)
    assert list(parts.core) == sorted(parts.core)


def capabilities_of(matrix: Matrix, name: str) -> set[str]:
    return {str(model.capability) for model in matrix.gpus.find(name)}


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("Tesla V100", "7.0"),
        ("V100", "7.0"),
        ("Tesla V100-PCIE-32GB", "7.0"),
        ("A100 80GB PCIe", "8.0"),
        ("Tesla A100", "8.0"),
        ("H100", "9.0"),
        ("h100-sxm5-80gb", "9.0"),
        ("rtx3090", "8.6"),
        ("4090", "8.9"),
        ("GTX 1080 Ti", "6.1"),
        ("NVIDIA GB200", "10.0"),
        ("GH200 480GB", "9.0"),
        ("Quadro RTX 6000", "7.5"),
        ("Quadro RTX A6000", "8.6"),
        ("RTX 6000 Ada Generation", "8.9"),
        ("NVIDIA RTX 6000 Ada", "8.9"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "12.0"),
        ("RTX PRO 6000", "12.0"),
        ("Tesla P100-PCIE-16GB", "6.0"),
        ("GTX TITAN X", "5.2"),
        ("NVIDIA TITAN X (Pascal)", "6.1"),
        ("TITAN RTX", "7.5"),
        ("Orin", "8.7"),
        ("NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super", "8.7"),
        ("2x RTX 3090", "8.6"),
    ],
)
def test_names_are_found_as_people_and_tools_write_them(
    matrix: Matrix, name: str, capability: str
) -> None:
    assert capabilities_of(matrix, name) == {capability}


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "8.0"),
        ("NVIDIA A30 MIG 1g.6gb", "8.0"),
        ("GRID A100-10C", "8.0"),
        ("GRID A100D-3-20C", "8.0"),
        ("GRID V100DX-32C", "7.0"),
        ("NVIDIA H100XM-80C", "9.0"),
        ("NVIDIA A40-48Q", "8.6"),
        ("GRID RTX6000-24Q", "7.5"),
        ("NVIDIA RTX6000-Ada-48Q", "8.9"),
        ("GRID M60-8Q", "5.2"),
    ],
)
def test_parts_of_a_gpu_are_found_under_its_name(
    matrix: Matrix, name: str, capability: str
) -> None:
    assert capabilities_of(matrix, name) == {capability}


def test_ti_is_another_product(matrix: Matrix) -> None:
    assert [m.name for m in matrix.gpus.find("RTX 3090 Ti")] == ["GeForce RTX 3090 Ti"]
    assert [m.name for m in matrix.gpus.find("RTX 3090")] == ["GeForce RTX 3090"]
    assert [m.name for m in matrix.gpus.find("RTX 5090D")] == ["GeForce RTX 5090 D"]


@pytest.mark.parametrize(
    ("name", "capabilities"),
    [
        ("RTX 6000", {"7.5", "8.9", "12.0"}),
        ("RTX 5000", {"7.5", "8.9", "12.0"}),
        ("TITAN X", {"5.2", "6.1"}),
        ("Quadro M620", {"5.0", "5.2"}),
    ],
)
def test_an_ambiguous_name_finds_all_that_it_may_mean(
    matrix: Matrix, name: str, capabilities: set[str]
) -> None:
    assert capabilities_of(matrix, name) == capabilities


def test_a_name_sold_with_two_chips_says_so(matrix: Matrix) -> None:
    (model,) = matrix.gpus.find("GeForce GTX 860M")
    assert model.capability == ComputeCapability(5, 0)
    assert model.other_capabilities == (ComputeCapability(3, 0),)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "NVIDIA",
        "GeForce",
        "80GB",
        "MIG 1g.5gb",
        "RTX 9090",
        "GTX 3090",
        "RTX 1080",
        "Tesla RTX 3090",
        "GeForce A100",
        "GT 640",
        "A1000000",
        "100",
        "NVIDIA Graphics Device",
        "AMD Instinct MI300X",
        "Intel Arc A770",
        "Radeon RX 7900 XTX",
    ],
)
def test_an_unknown_name_finds_nothing(matrix: Matrix, name: str) -> None:
    assert matrix.gpus.find(name) == ()


def test_every_product_finds_itself_with_and_without_the_vendor(matrix: Matrix) -> None:
    lost = [
        prefix + model.name
        for model in matrix.gpus.models
        for prefix in ("", "NVIDIA ")
        if model not in matrix.gpus.find(prefix + model.name)
    ]
    assert lost == []


def test_spelling_does_not_matter(matrix: Matrix) -> None:
    lost = [
        model.name
        for model in matrix.gpus.models
        for spelling in (model.name.upper(), model.name.lower(), model.name.replace(" ", "-"))
        if model not in matrix.gpus.find(spelling)
    ]
    assert lost == []


def test_a_mistyped_name_gets_suggestions(matrix: Matrix) -> None:
    assert matrix.gpus.suggest("RTX 3909")[0] == "GeForce RTX 3090"
    assert "A100" in matrix.gpus.suggest("A1000X")
    assert matrix.gpus.suggest("") == ()
    assert matrix.gpus.suggest("zzzzzzzzzz") == ()


def test_segments_tell_data_center_parts(matrix: Matrix) -> None:
    assert {m.segment for m in matrix.gpus.find("A100-SXM4-80GB")} == {MarketSegment.DATACENTER}
    assert {m.segment for m in matrix.gpus.find("RTX 4090")} == {MarketSegment.CONSUMER}
    assert {m.segment for m in matrix.gpus.find("RTX A6000")} == {MarketSegment.WORKSTATION}
    assert {m.segment for m in matrix.gpus.find("Jetson AGX Orin")} == {MarketSegment.JETSON}


def test_chips_have_capabilities(matrix: Matrix) -> None:
    assert matrix.gpus.chips["GA100"] == ComputeCapability(8, 0)
    assert matrix.gpus.chips["GB20B"] == ComputeCapability(12, 1)


def test_the_words_of_a_product_are_parts_of_its_name(matrix: Matrix) -> None:
    """What lets a search pass over rows by their names."""
    for model in matrix.gpus.models:
        assert all(word in model.name.lower() for word in parse_gpu_name(model.name).core)


def test_a_name_reads_only_the_rows_that_it_may_mean(broken: Break) -> None:
    old = 'name = "GeForce RTX 3090", capability'
    table = Matrix.load(broken("gpus.toml", old, 'name = "GeForce RTX 3090", cap')).gpus
    assert table.find("Tesla V100")
    with pytest.raises(MatrixError, match=r"gpus\.toml: gpu\[\d+\]\.capability is missing"):
        table.find("RTX 3090")
