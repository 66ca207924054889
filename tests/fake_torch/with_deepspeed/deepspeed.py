"""A DeepSpeed small enough to read, with the faults of ``fake_faults`` in each of its calls."""

from __future__ import annotations

import os
import pickle
from array import array
from pathlib import Path
from typing import Any

from fake_faults import trip  # type: ignore[import-not-found]  # on the child's path

__version__ = "0.99.0+fake"


class Engine:
    """What ``initialize`` returns."""

    def __init__(self, model: Any, optimizer: Any, zero: int) -> None:
        self.model, self.optimizer, self.zero = model, optimizer, zero

    def __call__(self, source: Any) -> Any:
        return self.model(source)

    def backward(self, loss: Any) -> None:
        """Gradients."""
        loss.backward()

    def step(self) -> None:
        """One step of the optimizer."""
        trip("ds-step")
        self.optimizer.step()

    def save_checkpoint(self, folder: str, tag: str) -> None:
        """Write the weights."""
        trip(f"ds-save-{self.zero}")
        path = Path(folder) / tag
        path.mkdir(parents=True)
        state = [list(param.data) for param in self.model.parameters()]
        (path / "states.pt").write_bytes(pickle.dumps(state))

    def load_checkpoint(self, folder: str, tag: str) -> tuple[str | None, dict[str, Any]]:
        """Read the weights back; with a planted fault it reads nothing, or something wrong."""
        if os.environ.get("FAKE_DEEPSPEED_LOADS") == "nothing":
            return None, {}
        path = Path(folder) / tag / "states.pt"
        state = pickle.loads(path.read_bytes())  # noqa: S301 - the test's own file
        factor = trip("ds-load")
        for param, values in zip(self.model.parameters(), state, strict=True):
            param.data = array("f", [value * factor for value in values])
        return str(path), {}


def initialize(
    *, model: Any, optimizer: Any, config: dict[str, Any], dist_init_required: bool
) -> tuple[Engine, Any, None, None]:
    """An engine; it needs what a launcher sets, as the real one does."""
    assert "LOCAL_RANK" in os.environ, "DeepSpeed requires the LOCAL_RANK environment variable"
    trip("ds-initialize")
    return Engine(model, optimizer, config["zero_optimization"]["stage"]), optimizer, None, None


trip("ds-import")
