"""Reads TOML that others wrote: with bounds, with line numbers, with errors that name the place."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from envguard.errors import InputError
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_BYTES = 32 * 1024 * 1024
_LONG_LINE = 4096
_MAX_DOTS = 1000
_STRINGS = re.compile(r'"[^"]*"|' + r"'[^']*'")


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Decode TOML.

    Args:
        text: The whole file.
        name: Of the file, for messages.

    Raises:
        InputError: Not TOML, or too large or too deeply nested to be a lockfile.
    """
    if len(text) > _MAX_BYTES:
        raise InputError(f"{name}: larger than {_MAX_BYTES // 1024**2} MiB")
    _refuse_long_keys(text, name)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as err:
        raise InputError(f"{name}: not valid TOML: {_lower(str(err))}") from err
    except (ValueError, RecursionError) as err:
        raise InputError(f"{name}: not usable TOML: {_lower(str(err))}") from err


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _refuse_long_keys(text: str, name: str) -> None:
    """The decoder's time grows with the square of the parts of a dotted key."""
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > _LONG_LINE and _STRINGS.sub("", line).count(".") > _MAX_DOTS:
            raise InputError(f"{name}:{number}: a line that no lockfile has")


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a document, with its place for messages.

    Args:
        data: The decoded table.
        place: ``uv.lock:12: package[3]``.
        line: Line of its heading, from 1; None where it has none of its own.
    """

    data: Mapping[str, Any]
    place: str
    line: int | None = None

    def error(self, words: str) -> InputError:
        """An error at this place."""
        return InputError(f"{self.place}: {words}")

    def text(self, key: str) -> str:
        """A string; empty where it is absent.

        Raises:
            InputError: It is something else.
        """
        value = self.data.get(key, "")
        if not isinstance(value, str):
            raise InputError(f"{self.place}.{key} is {_kind(value)}, expected a string")
        return value

    def required(self, key: str) -> str:
        """A string that must be there.

        Raises:
            InputError: It is absent, empty or something else.
        """
        value = self.text(key)
        if not value:
            raise InputError(f"{self.place}.{key} is missing")
        return value

    def version(self, key: str = "version") -> Version | None:
        """A version; None where it is absent.

        Raises:
            InputError: It is no version.
        """
        text = self.text(key)
        try:
            return Version(text) if text else None
        except ValueError as err:
            raise InputError(f"{self.place}.{key}: {text[:100]!r} is no version") from err

    def table(self, key: str) -> Table:
        """A table within; empty where it is absent.

        Raises:
            InputError: It is something else.
        """
        value = self.data.get(key, {})
        if not isinstance(value, dict):
            raise InputError(f"{self.place}.{key} is {_kind(value)}, expected a table")
        return Table(value, f"{self.place}.{key}", self.line)

    def tables(self, key: str, lines: Sequence[int] = ()) -> tuple[Table, ...]:
        """A list of tables; empty where it is absent.

        Args:
            key: Its name.
            lines: Lines of the headings, if they are known.

        Raises:
            InputError: It is something else.
        """
        value = self.data.get(key, [])
        if not isinstance(value, list):
            raise InputError(f"{self.place}.{key} is {_kind(value)}, expected a list")
        known = lines if len(lines) == len(value) else [None] * len(value)
        found = []
        for position, (item, line) in enumerate(zip(value, known, strict=True)):
            place = f"{self.place}.{key}[{position}]"
            if line is not None:
                place = f"{self.place.partition(':')[0]}:{line}: {key}[{position}]"
            if not isinstance(item, dict):
                raise InputError(f"{place} is {_kind(item)}, expected a table")
            found.append(Table(item, place, line if line is not None else self.line))
        return tuple(found)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; empty where it is absent.

        Raises:
            InputError: It is something else.
        """
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise InputError(f"{self.place}.{key}: expected a list of strings")
        return tuple(value)


def _kind(value: object) -> str:
    match value:
        case str():
            return "a string"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return type(value).__name__


def heading_lines(text: str, key: str) -> tuple[int, ...]:
    """The lines, from 1, of the headings ``[[key]]``."""
    heading = re.compile(rf"\s*\[\[\s*[\"']?{re.escape(key)}[\"']?\s*\]\]")
    return tuple(
        number
        for number, line in enumerate(text.split("\n"), start=1)
        if "[[" in line and heading.match(line)
    )
