"""A torch small enough to read: pure Python, right numbers, and faults on demand.

``FAKE_TORCH_FAULTS`` holds ``operation=fault`` words (``linear=segfault backward=hang``);
``FAKE_TORCH_MESSAGE`` is what ``raise`` raises; ``FAKE_TORCH_GPU`` holds ``cuda runtime,
capability, code targets, UUID`` of a pretended GPU, and ``FAKE_TORCH_CUDA`` the runtime alone.
With ``FAKE_TORCH_DISTRIBUTED`` it has ``torch.distributed``, from the folder ``torch_parts``.
"""

from __future__ import annotations

import importlib
import math
import os
import pickle
from array import array
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fake_faults import trip  # type: ignore[import-not-found]  # beside it, on the child's path
from fake_modules import Linear, Sequential, Tanh  # type: ignore[import-not-found]  # likewise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

float32, float16, bfloat16 = "float32", "float16", "bfloat16"
__version__ = os.environ.get("FAKE_TORCH_VERSION", "9.9.9+fake")
_GPU = os.environ.get("FAKE_TORCH_GPU", "").split(",")
_CUDA = _GPU[0] or os.environ.get("FAKE_TORCH_CUDA") or None


# --- tensors -----------------------------------------------------------------------------------


def _flat(values: Any) -> tuple[list[float], tuple[int, ...]]:
    if not isinstance(values, list):
        return [float(values)], ()
    parts = [_flat(value) for value in values]
    return [number for flat, _ in parts for number in flat], (len(values), *parts[0][1])


class Tensor:
    """Numbers with a shape; ``back`` hands a gradient on to what they were made from."""

    def __init__(
        self,
        data: Sequence[float],
        shape: tuple[int, ...],
        back: Callable[[Sequence[float]], None] | None = None,
    ) -> None:
        self.data = data if isinstance(data, array) else array("f", data)
        self.shape = shape
        self.back = back
        self.grad: Tensor | None = None

    def rows(self) -> list[array[float]]:
        """The rows of a matrix."""
        width = self.shape[-1]
        return [self.data[i : i + width] for i in range(0, len(self.data), width)]

    def tolist(self) -> Any:
        """Nested lists."""
        return _nest(list(self.data), self.shape)

    def item(self) -> float:
        """The only number."""
        (number,) = self.data
        return number

    def sum(self) -> Tensor:
        """The total."""
        return Tensor([math.fsum(self.data)], ())

    def receive(self, gradient: Sequence[float]) -> None:
        """Take a gradient: hand it on, or keep it in a leaf."""
        if self.back is not None:
            self.back(gradient)
        else:
            self.grad = Tensor(gradient, self.shape)

    def backward(self) -> None:
        """Gradients of a scalar."""
        self.receive([trip("backward")])

    def __matmul__(self, other: Tensor) -> Tensor:
        factor = trip("matmul")
        columns = list(zip(*other.rows(), strict=True))
        product = [_dot(row, column) * factor for row in self.rows() for column in columns]
        return Tensor(product, (self.shape[0], other.shape[1]))


def _nest(flat: list[float], shape: tuple[int, ...]) -> Any:
    if not shape:
        return flat[0]
    step = len(flat) // shape[0]
    return [_nest(flat[i : i + step], shape[1:]) for i in range(0, len(flat), step)]


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def tensor(values: Any, *, dtype: str, device: str, requires_grad: bool = False) -> Tensor:
    """A tensor from nested lists."""
    flat, shape = _flat(values)
    return Tensor(flat, shape)


def ones(shape: tuple[int, ...], *, device: str) -> Tensor:
    """A one-dimensional tensor of ones."""
    return Tensor([trip("ones")] * shape[0], shape)


def full(shape: tuple[int, ...], value: float, *, dtype: str, device: str) -> Tensor:
    """A one-dimensional tensor of one value."""
    return Tensor(array("f", [value * trip("full")]) * shape[0], shape)


def equal(left: Tensor, right: Tensor) -> bool:
    """Whether all numbers are equal."""
    return left.data == right.data


def tanh(source: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    values = [math.tanh(v) for v in source.data]

    def back(gradient: Sequence[float]) -> None:
        source.receive([g * (1 - v * v) for g, v in zip(gradient, values, strict=True)])

    return Tensor(values, source.shape, back)


def _linear(source: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    factor = trip("linear")
    rows, shape = source.rows(), (source.shape[0], weight.shape[0])
    values = [
        factor * (_dot(row, w) + b)
        for row in rows
        for w, b in zip(weight.rows(), bias.data, strict=True)
    ]

    def back(gradient: Sequence[float]) -> None:
        d_rows = Tensor(gradient, shape).rows()
        d_columns = list(zip(*d_rows, strict=True))
        bias.receive([sum(column) for column in d_columns])
        columns = list(zip(*rows, strict=True))
        weight.receive([_dot(d, column) for d in d_columns for column in columns])
        w_columns = list(zip(*weight.rows(), strict=True))
        source.receive([_dot(row, column) for row in d_rows for column in w_columns])

    return Tensor(values, shape, back)


def _mse_loss(answer: Tensor, target: Tensor) -> Tensor:
    errors = [a - t for a, t in zip(answer.data, target.data, strict=True)]

    def back(gradient: Sequence[float]) -> None:
        answer.receive([2 * e * gradient[0] / len(errors) for e in errors])

    return Tensor([_dot(errors, errors) / len(errors)], (), back)


def _conv2d(image: Tensor, kernel: Tensor) -> Tensor:
    factor = trip("conv2d")
    (planes,), kernels = image.tolist(), kernel.tolist()
    size = image.shape[-1] - kernel.shape[-1] + 1
    values = [
        factor
        * sum(
            _dot(p[r + i][c : c + 3], k[i])
            for p, k in zip(planes, ks, strict=True)
            for i in range(3)
        )
        for ks in kernels
        for r in range(size)
        for c in range(size)
    ]
    return Tensor(values, (1, len(kernels), size, size))


def _attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    factor = trip("attention")
    values: list[float] = []
    for row in query.rows():
        scores = [math.exp(_dot(row, k) / math.sqrt(len(row))) for k in key.rows()]
        columns = zip(*value.rows(), strict=True)
        values.extend(factor * _dot(scores, column) / sum(scores) for column in columns)
    return Tensor(values, query.shape)


class SGD:
    """Gradient descent."""

    def __init__(self, params: Sequence[Tensor], lr: float, weight_decay: float = 0.0) -> None:
        self.params, self.lr = params, lr

    def step(self) -> None:
        """Move along the gradients."""
        rate = self.lr * trip("sgd")
        for param in self.params:
            assert param.grad is not None
            moved = [w - rate * g for w, g in zip(param.data, param.grad.data, strict=True)]
            param.data = array("f", moved)


class AdamW(SGD):
    """The first step of AdamW: the sign of the gradient."""

    def step(self) -> None:
        """Move by the learning rate."""
        trip("adamw")
        for param in self.params:
            assert param.grad is not None
            moved = [
                w - self.lr * math.copysign(1.0, g)
                for w, g in zip(param.data, param.grad.data, strict=True)
            ]
            param.data = array("f", moved)


def save(state: dict[str, Any], path: str) -> None:
    """Write a checkpoint."""
    trip("save")
    plain = {k: v.data if isinstance(v, Tensor) else v for k, v in state.items()}
    with open(path, "wb") as file:  # noqa: PTH123 - as short as torch's own
        pickle.dump(plain, file)


def load(path: str, *, map_location: str) -> dict[str, Any]:
    """Read a checkpoint."""
    with open(path, "rb") as file:  # noqa: PTH123 - likewise
        plain = pickle.load(file)  # noqa: S301 - the test's own file
    factor = trip("load")
    return {
        k: Tensor([v[0] * factor, *v[1:]], (len(v),)) if isinstance(v, array) else v
        for k, v in plain.items()
    }


# --- CUDA --------------------------------------------------------------------------------------


def _properties(device: str) -> SimpleNamespace:
    major, _, minor = _GPU[1].partition(".")
    return SimpleNamespace(
        name="Fake GPU",
        major=int(major),
        minor=int(minor),
        total_memory=1 << 34,
        uuid=_GPU[3] if len(_GPU) > 3 else "",
    )


def _capability(device: str) -> tuple[int, int]:
    found = _properties(device)
    return found.major, found.minor


version = SimpleNamespace(cuda=_CUDA, hip=os.environ.get("FAKE_TORCH_HIP"), git_version="0" * 40)
backends = SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 91002))
optim = SimpleNamespace(SGD=SGD, AdamW=AdamW)
functional = SimpleNamespace(
    linear=_linear, mse_loss=_mse_loss, conv2d=_conv2d, scaled_dot_product_attention=_attention
)
nn = SimpleNamespace(functional=functional, Linear=Linear, Sequential=Sequential, Tanh=Tanh)
cuda = SimpleNamespace(
    init=lambda: trip("init"),
    device_count=lambda: int(os.environ.get("FAKE_TORCH_GPUS", "1")),
    is_initialized=lambda: True,
    set_device=lambda device: None,
    synchronize=lambda device: trip("synchronize"),
    get_device_properties=_properties,
    get_device_capability=_capability,
    get_arch_list=lambda: _GPU[2].split(),
    mem_get_info=lambda device: (1 << 33, 1 << 34),
)
__path__ = [os.path.join(os.path.dirname(__file__), "torch_parts")]  # noqa: PTH118, PTH120 - short
trip("import")
if os.environ.get("FAKE_TORCH_DISTRIBUTED"):
    importlib.import_module("torch.distributed")
