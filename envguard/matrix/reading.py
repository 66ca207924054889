"""Reads a table file into rows with typed fields; errors name the table, row and field."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, TypeVar, cast

from envguard.errors import DocumentError, MatrixError
from envguard.facts.codec import Memo, from_row, shown
from envguard.facts.findings import Source
from envguard.matrix.rows import Confidence, Provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

T = TypeVar("T")

_CERTAINTIES = frozenset({"high", "medium", "low"})


class Document:
    """One decoded table file.

    Args:
        name: File name, the start of every message.
        data: What it holds.
    """

    __slots__ = ("_sources", "data", "memo", "name")

    def __init__(self, name: str, data: Mapping[str, object]) -> None:
        self.name = name
        self.data = data
        self.memo: Memo = {}  # what rows that say the same are made of
        self._sources = self._read_sources()

    @property
    def sources(self) -> Mapping[str, Source]:
        """The table's sources by key."""
        return self._sources

    def rows(self, array: str) -> Iterator[Row]:
        """The rows of one array, in file order.

        Raises:
            MatrixError: The array is missing or holds something else than tables.
        """
        items = self.data.get(array)
        if not isinstance(items, list):
            raise MatrixError(f"{self.name}: {array}: expected an array of rows")
        for index, item in enumerate(items):
            if not isinstance(item, dict):
                raise MatrixError(f"{self.name}: {array}[{index}]: expected a row of fields")
            yield Row(self, array, index, item)

    def find(self, array: str, field: str, text: str) -> Row | None:
        """The first row of an array whose field is exactly this text, or None.

        Raises:
            MatrixError: The array is missing or holds something else than tables.
        """
        return next((row for row in self.rows(array) if row.data.get(field) == text), None)

    def naming(self, array: str, field: str, word: str) -> Iterator[Row]:
        """The rows of an array whose field of words holds this one.

        Raises:
            MatrixError: The array is missing, or the field of a row is malformed.
        """
        return (row for row in self.rows(array) if word in row.words(field))

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Make a value once per key: tables say the same thing in many rows.

        Args:
            key: What the value is made from; it must name the maker too.
            make: Called for a key that is new.
        """
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = make()
        return cast("T", found)

    def parse(self, parse: Callable[[str], T], text: str) -> T:
        """Apply a parser once per distinct text.

        Raises:
            ValueError: The parser refuses the text.
        """
        return self.once((parse, text), lambda: parse(text))

    def _read_sources(self) -> dict[str, Source]:
        table = self.data.get("sources", {})
        if not isinstance(table, dict):
            raise MatrixError(f"{self.name}: sources: expected a table")
        return {key: self._read_source(key, entry) for key, entry in table.items()}

    def _read_source(self, key: str, entry: object) -> Source:
        if not isinstance(entry, dict):
            raise MatrixError(f"{self.name}: sources.{key}: expected a table of url and checked")
        for name in ("url", "checked"):
            if not isinstance(entry.get(name), str) or not entry[name]:
                raise MatrixError(f"{self.name}: sources.{key}.{name}: expected a text")
        try:
            date.fromisoformat(entry["checked"])
        except ValueError as err:
            raise MatrixError(f"{self.name}: sources.{key}.checked: {err}") from err
        return Source(entry["url"], entry["checked"])


class Row:
    """One row of a table; every accessor raises MatrixError naming the field.

    Args:
        document: The table file.
        array: Name of the array that the row stands in.
        index: Its position there.
        data: Its fields.
    """

    __slots__ = ("array", "data", "document", "index")

    def __init__(
        self, document: Document, array: str, index: int, data: Mapping[str, object]
    ) -> None:
        self.document = document
        self.array = array
        self.index = index
        self.data = data

    @property
    def place(self) -> str:
        """Where the row stands, e.g. ``torch.toml: build[3]``."""
        return f"{self.document.name}: {self.array}[{self.index}]"

    def error(self, field: str, problem: str) -> MatrixError:
        """The error about a field, e.g. ``torch.toml: build[3].targets[0]: ...``."""
        return MatrixError(f"{self.document.name}: {self.array}[{self.index}].{field}: {problem}")

    def build(self, kind: type[T], **given: object) -> T:
        """The row as a value of a dataclass, by whose annotations its fields are read.

        Args:
            kind: The dataclass; its field ``provenance``, where it has one, tells where the row
                comes from.
            given: Values of fields that the row does not state in that form.

        Raises:
            MatrixError: A field is missing or has the wrong form.
        """
        if "provenance" not in given and "provenance" in kind.__dict__["__dataclass_fields__"]:
            given["provenance"] = self.provenance()
        try:
            return from_row(kind, self.data, self.place, given, self.document.memo)
        except DocumentError as err:
            raise MatrixError(err.message) from err

    def below(self, array: str) -> Iterator[Row]:
        """The rows of an array inside this row; none where it has no such array.

        Raises:
            MatrixError: It is no array of rows.
        """
        items = self.data.get(array, [])
        if not isinstance(items, list):
            raise self.error(array, "expected an array of rows")
        for index, item in enumerate(items):
            if not isinstance(item, dict):
                raise self.error(f"{array}[{index}]", "expected a row of fields")
            yield Row(self.document, f"{self.array}[{self.index}].{array}", index, item)

    def has(self, field: str) -> bool:
        """Whether the row states the field."""
        return field in self.data

    def text(self, field: str) -> str:
        """A field that must be a text."""
        value = self.data.get(field)
        if not isinstance(value, str):
            raise self.error(field, _problem(value, "a text", is_missing=field not in self.data))
        return value

    def integer(self, field: str) -> int:
        """A field that must be a whole number."""
        value = self.data.get(field)
        if not isinstance(value, int) or isinstance(value, bool):
            missing = field not in self.data
            raise self.error(field, _problem(value, "a whole number", is_missing=missing))
        return value

    def flag(self, field: str, *, default: bool) -> bool:
        """A field that is a boolean where it is stated."""
        value = self.data.get(field, default)
        if not isinstance(value, bool):
            raise self.error(field, _problem(value, "true or false", is_missing=False))
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        """A field that must be a list of texts."""
        items = self._list(field)
        for index, item in enumerate(items):
            if not isinstance(item, str):
                problem = _problem(item, "a text", is_missing=False)
                raise self.error(f"{field}[{index}]", problem)
        return tuple(items)  # type: ignore[arg-type]  # proven above

    def words(self, field: str) -> tuple[str, ...]:
        """A field that must be a text of words with single spaces between, e.g. code targets.

        Words parse twice as fast as a list of texts, and every command pays for it.
        """
        text = self.text(field)
        words = tuple(text.split(" ")) if text else ()
        if "" in words:
            raise self.error(field, "expected single spaces between words")
        return words

    def integers(self, field: str) -> tuple[int, ...]:
        """A field that must be a list of whole numbers."""
        items = self._list(field)
        for index, item in enumerate(items):
            if not isinstance(item, int) or isinstance(item, bool):
                problem = _problem(item, "a whole number", is_missing=False)
                raise self.error(f"{field}[{index}]", problem)
        return tuple(items)  # type: ignore[arg-type]  # proven above

    def value(self, field: str, parse: Callable[[str], T]) -> T:
        """A text field in its parsed form."""
        text = self.text(field)
        try:
            return self.document.parse(parse, text)
        except ValueError as err:
            raise self.error(field, str(err)) from err

    def optional(self, field: str, parse: Callable[[str], T]) -> T | None:
        """The parsed form of a text field, or None where the row does not state it."""
        return self.value(field, parse) if field in self.data else None

    def values(self, field: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        """A field of words in their parsed forms."""
        key = (parse, "words", self.text(field))
        return self.document.once(key, lambda: tuple(self._values(field, parse)))

    def _values(self, field: str, parse: Callable[[str], T]) -> Iterator[T]:
        for index, text in enumerate(self.words(field)):
            try:
                yield self.document.parse(parse, text)
            except ValueError as err:
                raise self.error(f"{field}[{index}]", str(err)) from err

    def provenance(self) -> Provenance:
        """The row's sources, confidence and firmness.

        A row is firm unless it is inferred or of low certainty.
        """
        said = tuple(self.data.get(f) for f in ("source", "confidence", "certainty", "note"))
        if all(text is None or isinstance(text, str) for text in said):
            return self.document.once((Provenance, said), self._provenance)
        return self._provenance()  # which says what is wrong

    def _provenance(self) -> Provenance:
        keys = self.words("source")
        if not keys:
            raise self.error("source", "names no source")
        for index, key in enumerate(keys):
            if key not in self.document.sources:
                raise self.error(f"source[{index}]", f"{key!r} is not among the sources")
        confidence = self.value("confidence", Confidence)
        first, *others = (self.document.sources[key] for key in keys)
        is_firm = self.certainty() != "low" and confidence is not Confidence.INFERRED
        note = self.text("note") if "note" in self.data else ""
        return Provenance(first, confidence, is_firm, note, tuple(others))

    def certainty(self) -> str:
        """How sure the row is: ``high`` (where not stated), ``medium`` or ``low``."""
        certainty = self.text("certainty") if "certainty" in self.data else "high"
        if certainty not in _CERTAINTIES:
            raise self.error("certainty", f"{certainty!r} is none of high, medium, low")
        return certainty

    def _list(self, field: str) -> list[object]:
        value = self.data.get(field)
        if not isinstance(value, list):
            raise self.error(field, _problem(value, "a list", is_missing=field not in self.data))
        return value


def _problem(value: object, wanted: str, *, is_missing: bool) -> str:
    return "is missing" if is_missing else f"expected {wanted}, found {shown(value)}"
