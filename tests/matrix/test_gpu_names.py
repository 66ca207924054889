from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envguard.matrix.gpus import parse_gpu_name


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
