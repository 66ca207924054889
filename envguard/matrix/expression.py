"""A small arithmetic language for formulas that are data: names, numbers and four functions."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.errors import MatrixError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LENGTH_LIMIT = 400
_NODE_LIMIT = 120


def _power_of_two(value: float) -> float:
    """The smallest power of two that is not below a value; 0 for nothing."""
    return 0.0 if value <= 0 else float(2 ** math.ceil(math.log2(value)))


_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "ceil": math.ceil,
    "pow2": _power_of_two,
}


_OF_ONE = frozenset({"ceil", "pow2"})


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression.

    Args:
        text: As written.
        names: The symbols that it needs.
        tree: Its syntax tree; only the node kinds that :func:`_value` knows are in it.
    """

    text: str
    names: frozenset[str]
    tree: ast.expr

    @classmethod
    def parse(cls, text: str) -> Expression:
        """Read an expression.

        Raises:
            ValueError: It is no expression, too long, or uses something else than arithmetic.
        """
        if len(text) > _LENGTH_LIMIT:
            raise ValueError(f"an expression of {len(text)} characters is too long")
        try:
            tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
            raise ValueError(f"{text!r} is not an expression") from err
        if sum(1 for _ in ast.walk(tree)) > _NODE_LIMIT:
            raise ValueError(f"{text!r} has too many parts")
        names: set[str] = set()
        _check(tree, text, names)
        return cls(text, frozenset(names), tree)

    def evaluate(self, symbols: Mapping[str, float]) -> float:
        """The value with these symbols.

        Raises:
            MatrixError: A symbol is missing, a division by zero, or the value is not finite.
        """
        try:
            value = _value(self.tree, symbols)
        except KeyError as err:
            raise MatrixError(f"formula {self.text!r} needs {err.args[0]}, not given") from err
        except (ZeroDivisionError, OverflowError) as err:
            raise MatrixError(f"formula {self.text!r} has no value: {err}") from err
        if not math.isfinite(value):
            raise MatrixError(f"formula {self.text!r} is not finite")
        return value


def _check(node: ast.expr, text: str, names: set[str]) -> None:
    """Refuse every node kind that :func:`_value` does not know, and collect the names."""
    match node:
        case ast.Constant(value=bool()):
            raise ValueError(f"{text!r}: {ast.unparse(node)} is not a number")
        case ast.Constant(value=int() | float()):
            return
        case ast.Name(id=name):
            names.add(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            _check(operand, text, names)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right):
            _check(left, text, names)
            _check(right, text, names)
        case ast.BinOp(left=left, op=ast.Div() | ast.FloorDiv(), right=right):
            _check(left, text, names)
            _check(right, text, names)
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as items, keywords=[]):
            if name not in _FUNCTIONS:
                raise ValueError(f"{text!r}: {name} is none of {', '.join(sorted(_FUNCTIONS))}")
            if name in _OF_ONE and len(items) != 1:
                raise ValueError(f"{text!r}: {name} takes one value, not {len(items)}")
            if name not in _OF_ONE and len(items) < 2:
                raise ValueError(f"{text!r}: {name} takes two values or more")
            for item in items:
                _check(item, text, names)
        case _:
            raise ValueError(f"{text!r}: {ast.unparse(node)} is not arithmetic")


def _value(node: ast.expr, symbols: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return symbols[name]
        case ast.UnaryOp(operand=operand):
            return -_value(operand, symbols)
        case ast.BinOp(left=left, op=operator, right=right):
            return _combine(operator, _value(left, symbols), _value(right, symbols))
        case ast.Call(func=ast.Name(id=name), args=items):
            return float(_FUNCTIONS[name](*(_value(item, symbols) for item in items)))
        case _:  # _check lets nothing else through
            raise ValueError(f"{ast.unparse(node)} is not arithmetic")


def _combine(operator: ast.operator, left: float, right: float) -> float:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case _:
            return left // right
