"""The arithmetic that torch is compared with is right by itself."""

from __future__ import annotations

import math

import pytest

from envguard.smoke._reference_child import (
    Mlp,
    WrongError,
    affine,
    attend,
    compare,
    convolve,
    deviation,
    grid,
    ternary,
)


def test_values_are_exact_in_bfloat16() -> None:
    net = Mlp()
    rows = [*net.x, *net.y, *net.w1, net.b1, *net.w2, net.b2]
    for number in (number for row in rows for number in row):
        mantissa, _ = math.frexp(number)
        assert (mantissa * 256).is_integer()  # 8 bits


def loss_of(net: Mlp) -> float:
    total = 0.0
    for x, target in zip(net.x, net.y, strict=True):
        hidden = [
            math.tanh(sum(a * b for a, b in zip(x, w, strict=True)) + c)
            for w, c in zip(net.w1, net.b1, strict=True)
        ]
        answer = [
            sum(a * b for a, b in zip(hidden, w, strict=True)) + c
            for w, c in zip(net.w2, net.b2, strict=True)
        ]
        total += sum((a - t) ** 2 for a, t in zip(answer, target, strict=True))
    return total / 32


@pytest.mark.parametrize(("name", "row", "column"), [("w1", 3, 5), ("w1", 23, 15), ("w2", 2, 11)])
def test_a_gradient_is_the_slope_of_the_loss(name: str, row: int, column: int) -> None:
    gradients = Mlp().gradients()
    assert gradients["loss"] == pytest.approx(loss_of(Mlp()), rel=1e-12)
    step = 1e-5
    up, down = Mlp(), Mlp()
    getattr(up, name)[row][column] += step
    getattr(down, name)[row][column] -= step
    slope = (loss_of(up) - loss_of(down)) / (2 * step)
    assert gradients[name][row][column] == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize(("name", "place"), [("b1", 7), ("b2", 1)])
def test_a_biass_gradient_is_the_slope_of_the_loss(name: str, place: int) -> None:
    step = 1e-5
    up, down = Mlp(), Mlp()
    getattr(up, name)[place] += step
    getattr(down, name)[place] -= step
    slope = (loss_of(up) - loss_of(down)) / (2 * step)
    assert Mlp().gradients()[name][place] == pytest.approx(slope, rel=1e-6)


def test_affine_by_hand() -> None:
    assert affine([[1, 2]], [[3, 4], [5, 6]], [10, 20]) == [[21, 37]]


def test_attention_to_equal_keys_is_the_mean() -> None:
    assert attend([[1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]], [[2.0, 4.0], [4.0, 8.0]]) == [[3.0, 6.0]]


def test_attention_by_hand() -> None:
    # Scores ln 3 and 0 weigh 3/4 and 1/4; the one dimension scales by 1.
    (row,) = attend([[math.log(3.0)]], [[1.0], [0.0]], [[8.0], [0.0]])
    assert row == pytest.approx([6.0])


def test_convolution_by_hand() -> None:
    image = [grid(4, 4, lambda r, c: float(4 * r + c))]
    kernel = [[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, -1.0]]]
    assert convolve(image, kernel, 1, 1) == 5 - 15


def test_the_pattern_holds_all_three_numbers() -> None:
    assert {ternary(r, c) for r in range(4) for c in range(4)} == {-1.0, 0.0, 1.0}


def test_deviation_is_relative_to_the_largest_number() -> None:
    assert deviation([[10.0, 1.0]], [[10.0, 2.0]]) == pytest.approx(0.1)
    assert deviation(0.5, 0.0) == 0.5


@pytest.mark.parametrize("found", [[math.nan, 1.0], [math.inf, 1.0], [1.0]])
def test_what_is_not_finite_or_of_another_size_is_infinitely_far(found: list[float]) -> None:
    assert deviation(found, [1.0, 1.0]) == math.inf
    with pytest.raises(WrongError, match="x differs from the reference by inf"):
        compare("x", found, [1.0, 1.0], 1e9)


def test_numbers_within_the_tolerance_agree() -> None:
    assert compare("x", 1.01, 1.0, 0.02) == pytest.approx(0.01)
    with pytest.raises(WrongError):
        compare("x", 1.03, 1.0, 0.02)
