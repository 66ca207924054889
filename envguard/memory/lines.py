"""Lines of a plan: one amount each, with the formula that it came from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from envguard.matrix.memory_table import Amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from envguard.matrix.memory_table import Formula, MemoryTable

NOTHING = Amount.of(0.0)


class Part(Enum):
    """What a line is about; the order is the order of the stack."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    MASTER = "master weights"
    OPTIMIZER = "optimizer states"
    GATHERED = "gathered weights"
    BUCKETS = "buckets"
    ACTIVATIONS = "activations"
    LOGITS = "logits and loss"
    TRANSIENT = "transient copies"
    OFFLOADED = "offloaded states"
    LOADING = "loading"
    CHECKPOINT = "checkpoint copies"
    CONTEXT = "CUDA context"
    NCCL = "NCCL"
    FRAGMENTATION = "fragmentation"
    BASELINE = "processes"
    FILE_CACHE = "file cache"


_NOT_OF_THE_MODEL = frozenset({Part.CONTEXT, Part.NCCL, Part.BASELINE})


@dataclass(frozen=True, slots=True)
class Line:
    """One amount of memory.

    Args:
        part: What it is about.
        formula: Id of the formula; several are joined by `` x ``.
        amount: Bytes, for one GPU or for one node.
        what: For people.
        is_firm: Its evidence is good enough to fail a plan.
        is_reclaimable: The kernel takes it back before anything is killed: not counted.
    """

    part: Part
    formula: str
    amount: Amount
    what: str
    is_firm: bool = True
    is_reclaimable: bool = False

    def times(self, factor: float) -> Line:
        """The same line for several ranks."""
        return replace(self, amount=self.amount.times(factor))


@dataclass(frozen=True, slots=True)
class Stack:
    """Lines that are alive together."""

    lines: tuple[Line, ...] = ()

    @property
    def total(self) -> Amount:
        """Their sum, what is reclaimable left out."""
        return sum((n.amount for n in self.lines if not n.is_reclaimable), NOTHING)

    @property
    def firm(self) -> float:
        """The likely sum, where weak evidence counts with its lower end only."""
        counted = (n for n in self.lines if not n.is_reclaimable)
        return sum(n.amount.likely if n.is_firm else n.amount.low for n in counted)

    def plus(self, *lines: Line) -> Stack:
        """The stack with further lines on top."""
        return Stack((*self.lines, *lines))


class Book:
    """Turns formulas into lines.

    Args:
        table: The formulas.
        symbols: The values of a job.
        pins_memory: Page-locked blocks are rounded up.
        spread: By what factor the model's parameters may be off either way.
    """

    __slots__ = ("pins_memory", "spread", "symbols", "table")

    def __init__(
        self,
        table: MemoryTable,
        symbols: Mapping[str, float],
        *,
        pins_memory: bool = True,
        spread: float = 1.0,
    ) -> None:
        self.table = table
        self.symbols = symbols
        self.pins_memory = pins_memory
        self.spread = spread

    def line(self, part: Part, formula_id: str, *, per: float = 1.0) -> Line:
        """The line of one formula.

        Args:
            part: What it is about.
            formula_id: Id of the formula.
            per: How many ranks it stands for.
        """
        formula = self.table.formula(formula_id)
        amount = formula.evaluate(self.symbols, is_pinned=self.pins_memory).times(per)
        if part not in _NOT_OF_THE_MODEL:
            amount = amount.widened(1 / self.spread, self.spread)
        return Line(part, formula.id, amount, formula.what, is_firm=is_firm(formula))

    def moments(self, formula_id: str) -> frozenset[str]:
        """When a formula is alive within a step; always where it does not say."""
        return frozenset((self.table.formula(formula_id).moment or "all").split())


def is_firm(formula: Formula) -> bool:
    """Whether a formula's evidence may fail a plan."""
    return formula.provenance.is_firm


def largest(stacks: Iterable[Stack]) -> Stack:
    """The stack with the largest likely total."""
    return max(stacks, key=lambda stack: stack.total.likely)
