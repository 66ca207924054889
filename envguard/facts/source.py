"""Where a statement can be read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """Where a statement can be read, and when it was.

    Args:
        url: Address, or a short name of the artifact that was read.
        checked: ISO date.
    """

    url: str
    checked: str
