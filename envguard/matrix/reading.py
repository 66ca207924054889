"""Reads a table file into rows with typed fields; errors name the table, row and field."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, TypeVar

from envguard.errors import MatrixError
from envguard.facts.findings import Source
from envguard.matrix.rows import Confidence, Provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from importlib.resources.abc import Traversable

T = TypeVar("T")

_CERTAINTIES = frozenset({"high", "medium", "low"})


class Document:
    """One decoded table file.

    Args:
        name: File name, the start of every message.
        data: The decoded TOML.
    """

    __slots__ = ("_parsed", "_sources", "data", "name")

    def __init__(self, name: str, data: Mapping[str, object]) -> None:
        self.name = name
        self.data = data
        self._parsed: dict[tuple[object, str], object] = {}
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

    def parse(self, parse: Callable[[str], T], text: str) -> T:
        """Apply a parser once per distinct text.

        Raises:
            ValueError: The parser refuses the text.
        """
        key = (parse, text)
        found = self._parsed.get(key)
        if found is None:
            found = self._parsed[key] = parse(text)
        return found  # type: ignore[return-value]  # the key holds the parser that made it

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

    def error(self, field: str, problem: str) -> MatrixError:
        """The error about a field, e.g. ``torch.toml: build[3].targets[0]: ...``."""
        return MatrixError(f"{self.document.name}: {self.array}[{self.index}].{field}: {problem}")

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
        """A list of texts in their parsed forms."""
        found = []
        for index, text in enumerate(self.texts(field)):
            try:
                found.append(self.document.parse(parse, text))
            except ValueError as err:
                raise self.error(f"{field}[{index}]", str(err)) from err
        return tuple(found)

    def provenance(self) -> Provenance:
        """The row's sources, confidence and firmness.

        A row is firm unless it is inferred or of low certainty.
        """
        keys = self.texts("source")
        if not keys:
            raise self.error("source", "names no source")
        for index, key in enumerate(keys):
            if key not in self.document.sources:
                raise self.error(f"source[{index}]", f"{key!r} is not among the sources")
        confidence = self.value("confidence", Confidence)
        first, *others = (self.document.sources[key] for key in keys)
        is_firm = confidence is not Confidence.INFERRED and self.certainty() != "low"
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
    return "is missing" if is_missing else f"expected {wanted}, found {value!r:.60}"


def load_document(folder: Traversable, name: str) -> Document:
    """Read one table file.

    Args:
        folder: Where the tables lie.
        name: File name, e.g. ``torch.toml``.

    Raises:
        MatrixError: The file is missing, unreadable or not TOML.
    """
    import tomllib  # costs 5 ms of start-up that commands without tables need not pay

    try:
        text = (folder / name).read_bytes().decode("utf-8")
        data = tomllib.loads(text)
    except OSError as err:
        raise MatrixError(f"{name}: cannot be read: {err.strerror or err}") from err
    except UnicodeDecodeError as err:
        raise MatrixError(f"{name}: is not UTF-8 text: {err.reason}") from err
    except ValueError as err:  # TOMLDecodeError, or a number beyond Python's digit limit
        raise MatrixError(f"{name}: is not valid TOML: {err}") from err
    except RecursionError as err:
        raise MatrixError(f"{name}: is nested too deeply") from err
    return Document(name, data)
