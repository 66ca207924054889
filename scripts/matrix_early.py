"""Puts the facts about torch before 1.12 and CUDA before 10 in front of those that begin there."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

Row = dict[str, Any]

EARLY = Path(__file__).with_name("matrix_early.toml")
# What tells the rows of an array apart; of the arrays without an entry every field together.
_NAMES = {
    "torch": ("version",),
    "toolkit_driver": ("toolkit",),
    "driver_branch": ("linux_branch",),
    "nvcc_targets": ("cuda",),
    "domain": ("package", "version"),
}


class EarlyError(ValueError):
    """The facts came to hold what the early ones state."""


def with_early(facts: Row, path: Path = EARLY) -> Row:
    """The facts with the early rows of each array that they hold in front of their own.

    Args:
        facts: Decoded ``torch_cuda.toml`` or ``toolkit_compilers.toml``.
        path: The early facts.

    Raises:
        EarlyError: A row is on both sides.
    """
    early = tomllib.loads(path.read_text(encoding="utf-8"))
    joined = dict(facts)
    for array in early.keys() & facts.keys():
        names = _NAMES.get(array, ())
        known = [tuple(row[name] for name in names) if names else row for row in facts[array]]
        for row in early[array]:
            if (tuple(row[name] for name in names) if names else row) in known:
                raise EarlyError(f"{path.name}: {array}: {row} is among the facts already")
        joined[array] = [*early[array], *facts[array]]
    return joined
