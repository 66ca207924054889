"""What wheels said of the tables' rows, as lines for people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from envguard.facts.torch_wheel import TorchWheel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from envguard.matrix.wheel_rows import Comparison


@dataclass(slots=True)
class WheelReport:
    """What wheels said, as lines for people.

    Args:
        agreed: Rows and their fields that agree.
        drift: Fields that do not.
        unread: What could not be compared.
        is_complete: Everything that was asked for was read.
        wheels: The wheels.
    """

    agreed: list[str] = field(default_factory=list)
    drift: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    is_complete: bool = True
    wheels: list[TorchWheel] = field(default_factory=list)

    def add(self, comparisons: Iterable[Comparison]) -> None:
        """Take up what was compared; the fields of a row that agree become one line."""
        agreed: dict[str, list[str]] = {}
        for comparison in comparisons:
            if comparison.agrees:
                row = f"{comparison.table}: {comparison.row}"
                agreed.setdefault(row, []).append(comparison.field)
            elif comparison.drifts:
                self.drift.append(str(comparison))
            else:
                self.unread.append(str(comparison))
                self.is_complete &= not comparison.is_asked_for
        self.agreed += [f"{row}: {', '.join(fields)}" for row, fields in agreed.items()]

    def miss(self, what: str, why: str) -> None:
        """Take up a wheel that could not be read."""
        self.unread.append(f"{what}: {why}")
        self.is_complete = False
