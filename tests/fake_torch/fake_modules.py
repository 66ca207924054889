"""The modules of the pretended torch: as much of ``torch.nn`` as a two-layer network needs."""

from __future__ import annotations

import importlib
from typing import Any


class Linear:
    """A layer whose weights are given later."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.shape = (outputs, inputs)
        self.weight: Any = None
        self.bias: Any = None

    def __call__(self, source: Any) -> Any:
        torch = importlib.import_module("torch")
        return torch.nn.functional.linear(source, self.weight, self.bias)


class Tanh:
    """The hyperbolic tangent."""

    def __call__(self, source: Any) -> Any:
        return importlib.import_module("torch").tanh(source)


class Sequential:
    """Layers one after the other."""

    def __init__(self, *layers: Any) -> None:
        self.layers = layers

    def __call__(self, source: Any) -> Any:
        for layer in self.layers:
            source = layer(source)
        return source

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the weights: ``0.weight``, ``0.bias``, ``2.weight``, ``2.bias``."""
        for name, value in state.items():
            number, _, attribute = name.partition(".")
            setattr(self.layers[int(number)], attribute, value)

    def to(self, device: str) -> Sequential:
        """Itself: there is one device."""
        return self

    def parameters(self) -> list[Any]:
        """The weights."""
        layers = [layer for layer in self.layers if isinstance(layer, Linear)]
        return [value for layer in layers for value in (layer.weight, layer.bias)]
