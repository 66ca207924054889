"""Queries about memory: formulas by id, wrong estimators, typical shapes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from envguard.errors import MatrixError
from envguard.matrix.expression import Expression
from envguard.matrix.rows import Provenance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envguard.matrix.reading import Document, Row


class Origin(Enum):
    """How a formula came to be known."""

    MEASURED = "measured"
    CODE = "code"
    DOC = "doc"
    ISSUE = "issue"
    DERIVED = "derived"
    PAPER = "paper"


@dataclass(frozen=True, slots=True)
class Amount:
    """Bytes with their uncertainty: never below ``low``, never above ``high``."""

    low: float
    likely: float
    high: float

    @classmethod
    def of(cls, value: float) -> Amount:
        """A value that is certain."""
        return cls(value, value, value)

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.low + other.low, self.likely + other.likely, self.high + other.high)

    def times(self, factor: float) -> Amount:
        """Every end multiplied by the same factor."""
        return Amount(self.low * factor, self.likely * factor, self.high * factor)

    def widened(self, below: float, above: float) -> Amount:
        """The same likely value with ends moved apart by these factors."""
        return Amount(self.low * below, self.likely, self.high * above)


@dataclass(frozen=True, slots=True)
class Formula:
    """One formula.

    Args:
        id: Its name in every answer.
        group: What it is about: ``host_save``, ``activation``, ``plan`` ...
        expr: Its likely value.
        low: Where the evidence is a range, its lower end; None is ``expr``.
        high: Likewise the upper end.
        rounded: Its value where page-locked blocks are rounded up; None where they are not.
        moment: When it is alive within a phase: ``all``, ``backward``, ``update``, ``init``.
        part_of: The total that it is a part of, or empty.
        unit: ``bytes`` or ``elements``.
        what: One line for a person.
        measured: What was measured about it, possibly empty.
        evidence: How it came to be known.
        provenance: Its sources; not firm where the certainty is low.
    """

    id: str
    group: str
    expr: Expression
    low: Expression | None
    high: Expression | None
    rounded: Expression | None
    moment: str
    part_of: str
    unit: str
    what: str
    measured: str
    evidence: Origin
    provenance: Provenance

    def evaluate(self, symbols: Mapping[str, float], *, is_pinned: bool = False) -> Amount:
        """Its value with these symbols.

        Args:
            symbols: Values by name.
            is_pinned: Page-locked blocks are rounded up, where the formula says how.
        """
        plain = self.expr.evaluate(symbols)
        likely = plain
        if self.rounded is not None and is_pinned:
            likely = self.rounded.evaluate(symbols)
        low = self.low.evaluate(symbols) if self.low is not None else min(plain, likely)
        high = self.high.evaluate(symbols) if self.high is not None else likely
        return Amount(min(low, likely), likely, max(high, likely))


@dataclass(frozen=True, slots=True)
class WrongEstimator:
    """A tool or rule whose figure is known to mislead."""

    tool: str
    claim: str
    reality: str
    why: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class TypicalShape:
    """The shape of a public model, to stand in for one of which only the size is known.

    Layers of an encoder and a decoder are counted together.
    """

    name: str
    params: int
    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    is_gated: bool = True
    is_encoder_decoder: bool = False


class MemoryTable:
    """The rows of ``memory.toml``.

    Args:
        document: The decoded file.

    Raises:
        MatrixError: A row misses a field, has the wrong form, or states something twice.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self._formulas: dict[str, Formula] = {}
        for row in document.rows("formula"):
            formula = _read_formula(row)
            if formula.id in self._formulas:
                raise row.error("id", f"{formula.id!r} is stated twice")
            self._formulas[formula.id] = formula
        self.wrong_estimators = tuple(_read_wrong(r) for r in document.rows("wrong_estimator"))
        self.typical = tuple(_read_typical(row) for row in document.rows("typical"))
        if not self.typical:
            raise MatrixError(f"{document.name}: typical: holds no shape")

    @property
    def formulas(self) -> tuple[Formula, ...]:
        """All formulas, in file order."""
        return tuple(self._formulas.values())

    def formula(self, name: str) -> Formula:
        """A formula by id.

        Raises:
            MatrixError: There is none of this name.
        """
        found = self._formulas.get(name)
        if found is None:
            raise MatrixError(f"{self.document.name}: formula: there is no {name!r}")
        return found


def _read_formula(row: Row) -> Formula:
    unit = _optional_text(row, "unit") or "bytes"
    if unit not in {"bytes", "elements"}:
        raise row.error("unit", f"{unit!r} is none of bytes, elements")
    return Formula(
        id=row.text("id"),
        group=row.text("group"),
        expr=row.value("expr", Expression.parse),
        low=row.optional("low", Expression.parse),
        high=row.optional("high", Expression.parse),
        rounded=row.optional("rounded", Expression.parse),
        moment=_optional_text(row, "moment"),
        part_of=_optional_text(row, "part_of"),
        unit=unit,
        what=row.text("what"),
        measured=_optional_text(row, "measured"),
        evidence=row.value("evidence", Origin),
        provenance=row.provenance(),
    )


def _optional_text(row: Row, field: str) -> str:
    return row.text(field) if row.has(field) else ""


def _read_wrong(row: Row) -> WrongEstimator:
    return WrongEstimator(
        row.text("tool"), row.text("claim"), row.text("reality"), row.text("why"), row.provenance()
    )


def _read_typical(row: Row) -> TypicalShape:
    return TypicalShape(
        name=row.text("name"),
        params=row.integer("params"),
        hidden=row.integer("hidden"),
        ffn=row.integer("ffn"),
        layers=row.integer("layers"),
        heads=row.integer("heads"),
        kv_heads=row.integer("kv_heads"),
        vocab=row.integer("vocab"),
        is_gated=row.flag("is_gated", default=True),
        is_encoder_decoder=row.flag("is_encoder_decoder", default=False),
    )
