"""Memory formulas: a small arithmetic language, formulas by id, typical shapes."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from envguard.errors import MatrixError
from envguard.matrix.rows import Provenance
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from envguard.matrix.reading import Document


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
            for item in items:
                _check(item, text, names)
            if name in _OF_ONE and len(items) != 1:
                raise ValueError(f"{text!r}: {name} takes one value, not {len(items)}")
            if name not in _OF_ONE and len(items) < 2:
                raise ValueError(f"{text!r}: {name} takes two values or more")
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
    what: str
    evidence: Origin
    provenance: Provenance
    low: Expression | None = None
    high: Expression | None = None
    rounded: Expression | None = None
    moment: str = ""
    part_of: str = ""
    unit: Literal["bytes", "elements"] = "bytes"
    measured: str = ""

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
class PublicModel:
    """A public model by its names.

    Args:
        name: For people.
        hub: Its names on the hub, ``owner/name``.
        config: The fields of its config.json that a count needs, decoded.
        params: Parameters of the published checkpoint; None is not known to the last one.
        provenance: Where it comes from.
    """

    name: str
    hub: tuple[str, ...]
    config: Mapping[str, object]
    params: int | None
    provenance: Provenance


def parse_config(text: str) -> dict[str, object]:
    """Read ``llama hidden_size=4096 vision_config.depth=32``: a model type and its fields.

    Raises:
        ValueError: A word is no field, or a field is stated twice.
    """
    first, *words = text.split()
    config: dict[str, object] = {"model_type": first}
    for word in words:
        path, sign, value = word.partition("=")
        *outer, name = path.split(".")
        place = config
        for part in outer:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                raise ValueError(f"{word!r}: {part} is no object")  # noqa: TRY004  # of a text
            place = inner
        if not sign or name in place:
            raise ValueError(f"{word!r} is no field, or one that is stated twice")
        place[name] = _config_value(value)
    return config


def _config_value(text: str) -> object:
    if text in {"true", "false"}:
        return text == "true"
    return int(text) if text.isascii() and text.isdigit() else text


class MemoryTable:
    """The rows of ``memory.toml`` and ``models.toml``.

    Args:
        document: The decoded formulas.
        models: The decoded models; None for formulas alone.

    Raises:
        MatrixError: A row misses a field, has the wrong form, or states something twice.
    """

    def __init__(self, document: Document, models: Document | None = None) -> None:
        self.document = document
        self._models = models
        self._formulas: dict[str, Formula] = {}
        for row in document.rows("formula"):
            formula = row.build(Formula)
            if formula.id in self._formulas:
                raise row.error("id", f"{formula.id!r} is stated twice")
            self._formulas[formula.id] = formula
        self.wrong_estimators = tuple(
            r.build(WrongEstimator) for r in document.rows("wrong_estimator")
        )

    @cached_property
    def models(self) -> tuple[PublicModel, ...]:
        """Public models, in file order.

        Raises:
            MatrixError: A row misses a field, has the wrong form, or names a model again.
        """
        if self._models is None:
            return ()
        found: list[PublicModel] = []
        names: set[str] = set()
        for row in self._models.rows("model"):
            params = row.integer("params") if "params" in row.data else None
            config = row.value("config", parse_config)
            model = PublicModel(
                row.text("name"), row.words("hub"), config, params, row.provenance()
            )
            for name in model.hub:
                if name.lower() in names:
                    raise row.error("hub", f"{name!r} is stated twice")
                names.add(name.lower())
            found.append(model)
        return tuple(found)

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
