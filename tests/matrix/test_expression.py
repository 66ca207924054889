from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envguard.errors import MatrixError
from envguard.matrix.memory import Expression


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3*4", 14.0),
        ("-2 + 7", 5.0),
        ("7 // 2", 3.0),
        ("7 / 2", 3.5),
        ("min(4, 3, 5)", 3.0),
        ("max(P, 2*N)", 10.0),
        ("ceil(2.1)", 3.0),
        ("pow2(5)", 8.0),
        ("pow2(8)", 8.0),
        ("pow2(0)", 0.0),
        ("P*max(4*N, 16)*1.5", 300.0),
    ],
)
def test_arithmetic_is_what_it_says(text: str, value: float) -> None:
    assert Expression.parse(text).evaluate({"P": 10.0, "N": 5.0}) == value


def test_names_are_what_an_expression_needs() -> None:
    assert Expression.parse("2*P + 18*P/N").names == {"P", "N"}


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "P.real",
        "[P for P in (1,)]",
        "P ** 9",
        "P if N else 0",
        "lambda: 1",
        "open('x')",
        "max()",
        "max(*P)",
        "min(P, key=1)",
        "'text'",
        "True",
        "P < N",
        "P and N",
        "f(P)",
        "P[0]",
        "(P, N)",
        "x := 1",
        "",
        "2 +",
        "1j",
        "P" * 401,
        "+".join(["1"] * 100),
        "(" * 300 + "1" + ")" * 300,
    ],
)
def test_anything_but_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expression|arithmetic|none of|number|parts"):
        Expression.parse(text)


def test_a_missing_symbol_is_named() -> None:
    with pytest.raises(MatrixError, match="'2\\*P' needs P"):
        Expression.parse("2*P").evaluate({"N": 1.0})


@pytest.mark.parametrize("text", ["P/0", "P//0", "P*P*P*P*P*P"])
def test_a_value_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(MatrixError):
        Expression.parse(text).evaluate({"P": 1e70})


@given(st.floats(min_value=1, max_value=1e15))
def test_pow2_is_the_next_power_of_two(value: float) -> None:
    rounded = Expression.parse("pow2(x)").evaluate({"x": value})
    assert value <= rounded < 2 * value
    assert math.frexp(rounded)[0] == 0.5


@pytest.mark.parametrize("text", ["ceil(1, 2)", "pow2(1, 2)", "min(1)", "max(P)", "ceil()"])
def test_a_function_with_the_wrong_number_of_values_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"value|arithmetic"):
        Expression.parse(text)
