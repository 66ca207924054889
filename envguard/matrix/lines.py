"""Decodes tables in canonical form a row at a time: large ones are asked for a row or two."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from envguard.errors import MatrixError
from envguard.matrix.reading import Row

if TYPE_CHECKING:
    from envguard.matrix.reading import Document

_OPENING = re.compile(r"([A-Za-z0-9_-]+) = \[")
# What TOML and JSON write alike, but for the keys: texts without escapes, whole numbers, truth.
_ALIKE = re.compile(
    r'(?:"[^"\\\x00-\x1f\x7f]*"|[\w-]++ = |(?:true|false)\b|[0-9]++|[{}\[\], ])++', re.ASCII
)
_KEY = re.compile(r'"[^"]*"|(?<![\w-])([\w-]+) = ', re.ASCII)


class LineData(Mapping[str, object]):
    """The decoded table, whose arrays of rows are decoded when they are asked for.

    Args:
        name: File name, for messages.
        scalars: Everything but the arrays, decoded.
        lines: The text of every row by array.
    """

    def __init__(
        self, name: str, scalars: Mapping[str, object], lines: Mapping[str, tuple[str, ...]]
    ) -> None:
        self._name = name
        self._scalars = scalars
        self._lines = lines
        self._rows: dict[str, list[object]] = {}
        self._single: dict[tuple[str, int], dict[str, object]] = {}

    def __getitem__(self, key: str) -> object:
        if key not in self._lines:
            return self._scalars[key]
        if key not in self._rows:
            self._rows[key] = [self.row(key, index) for index in range(len(self._lines[key]))]
        return self._rows[key]

    def __contains__(self, key: object) -> bool:
        return key in self._lines or key in self._scalars

    def __iter__(self) -> Iterator[str]:
        yield from self._scalars
        yield from self._lines

    def __len__(self) -> int:
        return len(self._scalars) + len(self._lines)

    def lines(self, array: str) -> tuple[str, ...]:
        """The rows of an array as they stand in the file."""
        return self._lines.get(array, ())

    def row(self, array: str, index: int) -> dict[str, object]:
        """One row, decoded.

        Raises:
            MatrixError: It is not TOML.
        """
        found = self._single.get((array, index))
        if found is None:
            found = self._single[array, index] = self._decode(array, index)
        return found

    def _decode(self, array: str, index: int) -> dict[str, object]:
        text = self._lines[array][index].rstrip(",")
        if (alike := _decode_alike(text)) is not None:
            return alike
        import tomllib  # see load_document

        try:
            row = tomllib.loads(f"row = {text}")["row"]
        except ValueError as err:
            place = f"{self._name}: {array}[{index}]"
            raise MatrixError(f"{place}: is not valid TOML: {err}") from err
        return dict(row)


def _decode_alike(text: str) -> dict[str, object] | None:
    """Decode a row as JSON, in a third of the time; None where only a reader of TOML can tell."""
    if _ALIKE.fullmatch(text) is None:
        return None
    as_json = _KEY.sub(lambda match: f'"{match[1]}": ' if match[1] else match[0], text)
    try:
        row = json.loads(as_json, object_pairs_hook=_unique)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is stated twice")
    return found


def decode_lines(text: str, name: str) -> Mapping[str, object]:
    """Decode a table.

    Args:
        text: The whole file.
        name: File name, for messages.

    Returns:
        A :class:`LineData` for a table in canonical form (an array's rows one a line), else
        everything decoded.

    Raises:
        ValueError: It is not TOML.
    """
    import tomllib  # see load_document

    split = _split(text)
    if split is None:
        return tomllib.loads(text)
    rest, lines = split
    return LineData(name, tomllib.loads(rest), lines)


def _split(text: str) -> tuple[str, dict[str, tuple[str, ...]]] | None:
    """The text without its arrays of rows, and these; None when it is not in canonical form."""
    rest: list[str] = []
    arrays: dict[str, tuple[str, ...]] = {}
    rows: list[str] | None = None
    name = ""
    for line in text.splitlines():
        if rows is None:
            opening = _OPENING.fullmatch(line)
            if opening is None:
                rest.append(line)
            elif opening[1] in arrays:
                return None
            else:
                name, rows = opening[1], []
        elif line == "]":
            arrays[name], rows = tuple(rows), None
        elif line.startswith("  { ") and line.endswith(" },"):
            rows.append(line.strip())
        else:
            return None
    return ("\n".join(rest), arrays) if rows is None else None


def rows_with_words(document: Document, array: str, words: Iterable[str]) -> Iterator[Row]:
    """The rows of an array in which all words may occur, without decoding the others.

    Args:
        document: The table file.
        array: Name of the array.
        words: In small letters; parts of a word count, and any field.

    Raises:
        MatrixError: The array is missing, or a row that may be meant is not TOML.
    """
    data = document.data
    if not isinstance(data, LineData) or not data.lines(array):
        yield from document.rows(array)
        return
    wanted = tuple(words)
    for index, line in enumerate(data.lines(array)):
        lowered = line.lower()
        if "\\" in line or all(word in lowered for word in wanted):
            yield Row(document, array, index, data.row(array, index))


def rows_naming(document: Document, array: str, field: str, word: str) -> Iterator[Row]:
    """The rows of an array whose field of words holds this one, without decoding the others.

    Raises:
        MatrixError: The array is missing, or a row that may be meant is malformed.
    """
    data = document.data
    if not isinstance(data, LineData) or not data.lines(array):
        yield from (row for row in document.rows(array) if word in row.words(field))
        return
    wanted = re.compile(rf'\b{field} = "(?:[^"]* )?{re.escape(word)}[ "]')
    for index, line in enumerate(data.lines(array)):
        if wanted.search(line):
            row = Row(document, array, index, data.row(array, index))
            if word in row.words(field):
                yield row


def find_rows(document: Document, array: str, field: str, text: str) -> Iterator[Row]:
    """The rows of an array whose field is exactly this text, without decoding the others.

    Raises:
        MatrixError: The array is missing, or a row that may be meant is not TOML.
    """
    data = document.data
    if not isinstance(data, LineData) or not data.lines(array):
        yield from (row for row in document.rows(array) if row.data.get(field) == text)
        return
    wanted = f"{field} = {json.dumps(text, ensure_ascii=False)}"
    for index, line in enumerate(data.lines(array)):
        if wanted in line:
            row = Row(document, array, index, data.row(array, index))
            if row.data.get(field) == text:
                yield row
