# Runs inside the inspected interpreter, loaded by _child.py: standard library only,
# Python 3.8 syntax, no envguard import.
"""The arithmetic that torch is compared with: closed forms and plain Python, no torch."""

import math
from typing import Any, Callable, Dict, List

Matrix = List[List[float]]


class WrongError(Exception):
    """A number differs from the one computed without torch."""

    smoke_kind = "numerics"


class Mlp:
    """A two-layer network with tanh, mean squared error, and values given by formulas.

    Every input and weight is a small multiple of 1/128, exact in all three float types.
    """

    batch, inputs, hidden, outputs = 8, 16, 24, 4

    def __init__(self) -> None:
        self.x = grid(self.batch, self.inputs, lambda n, i: ((3 * n + 11 * i) % 13 - 6) / 8)
        self.y = grid(self.batch, self.outputs, lambda n, o: ((n + o) % 5 - 2) / 4)
        self.w1 = grid(self.hidden, self.inputs, lambda h, i: ((7 * h + 5 * i) % 17 - 8) / 32)
        self.b1 = [((h % 5) - 2) / 16 for h in range(self.hidden)]
        self.w2 = grid(self.outputs, self.hidden, lambda o, h: ((5 * o + 3 * h) % 19 - 9) / 64)
        self.b2 = [((o % 3) - 1) / 8 for o in range(self.outputs)]

    def stepped(self, rate: float) -> "Mlp":
        """The network after its first step of AdamW: each weight moves by the rate."""
        after, moves = Mlp(), self.gradients()
        for name in ("w1", "b1", "w2", "b2"):
            setattr(after, name, step_along(getattr(self, name), moves[name], rate))
        return after

    def gradients(self) -> Dict[str, Any]:
        """Loss and gradients by the chain rule, written out."""
        hidden = [[math.tanh(v) for v in row] for row in affine(self.x, self.w1, self.b1)]
        answer = affine(hidden, self.w2, self.b2)
        count = self.batch * self.outputs
        errors = [[a - b for a, b in zip(*rows)] for rows in zip(answer, self.y)]
        d_out = [[2 * e / count for e in row] for row in errors]
        back = [[sum(map(times, row, column)) for column in zip(*self.w2)] for row in d_out]
        d_hid = [[g * (1 - h * h) for g, h in zip(*rows)] for rows in zip(back, hidden)]
        return {
            "loss": sum(e * e for row in errors for e in row) / count,
            "w1": outer(d_hid, self.x),
            "b1": [sum(column) for column in zip(*d_hid)],
            "w2": outer(d_out, hidden),
            "b2": [sum(column) for column in zip(*d_out)],
        }


def step_along(values: Any, gradients: Any, rate: float) -> Any:
    """Against the gradient, by the rate times g / (|g| + 1e-8), in every number."""
    if isinstance(values, list):
        return [step_along(v, g, rate) for v, g in zip(values, gradients)]
    return values - rate * gradients / (abs(gradients) + 1e-8)


def grid(rows: int, columns: int, formula: Callable[[int, int], float]) -> Matrix:
    """A matrix from a formula of row and column."""
    return [[formula(r, c) for c in range(columns)] for r in range(rows)]


def times(a: float, b: float) -> float:
    """The product."""
    return a * b


def affine(x: Matrix, weight: Matrix, bias: List[float]) -> Matrix:
    """``x @ weight.T + bias``."""
    return [[sum(map(times, row, w)) + b for w, b in zip(weight, bias)] for row in x]


def outer(left: Matrix, right: Matrix) -> Matrix:
    """``left.T @ right``."""
    return [[sum(map(times, a, b)) for b in zip(*right)] for a in zip(*left)]


def flatten(values: Any) -> List[float]:
    """All numbers of a number or of nested lists, in order."""
    if not isinstance(values, list):
        return [float(values)]
    return [number for part in values for number in flatten(part)]


def deviation(found: Any, expected: Any) -> float:
    """Largest difference, relative to the largest expected number; inf for NaN or a wrong size."""
    left, right = flatten(found), flatten(expected)
    if len(left) != len(right) or not all(map(math.isfinite, left)):
        return math.inf
    scale = max(map(abs, right)) or 1.0
    return max(abs(a - b) for a, b in zip(left, right)) / scale


def compare(what: str, found: Any, expected: Any, tolerance: float) -> float:
    """Raise ``WrongError`` unless the numbers agree; return how far apart they are."""
    apart = deviation(found, expected)
    if apart <= tolerance:
        return apart
    raise WrongError(
        "%s differs from the reference by %.3g (relative to its largest value; %.3g allowed): "
        "found %s..., expected %s..."
        % (what, apart, tolerance, flatten(found)[:3], flatten(expected)[:3])
    )


def need_finite(what: str, values: Any) -> None:
    """Raise ``WrongError`` for NaN and infinities."""
    if not all(map(math.isfinite, flatten(values))):
        raise WrongError("%s holds NaN or infinity" % what)


def ternary(row: int, column: int) -> float:
    """A pattern of -1, 0 and 1: sums of up to 256 of them are exact in every float type."""
    return float((5 * row + 3 * column + row * column) % 3 - 1)


def convolve(image: List[Matrix], kernel: List[Matrix], row: int, column: int) -> float:
    """One output value of a valid cross-correlation."""
    return sum(
        plane[row + r][column + c] * weights[r][c]
        for plane, weights in zip(image, kernel)
        for r in range(3)
        for c in range(3)
    )


def attend(query: Matrix, key: Matrix, value: Matrix) -> Matrix:
    """Softmax of ``query @ key.T / sqrt(d)``, times ``value``."""
    answer = []
    for row in query:
        scores = [sum(map(times, row, k)) / math.sqrt(len(row)) for k in key]
        weights = [math.exp(score - max(scores)) for score in scores]
        total = sum(weights)
        answer.append([sum(map(times, weights, column)) / total for column in zip(*value)])
    return answer
