"""Settings that remedies change, and how texts write them: variables, options, keys."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING

from envguard.errors import MatrixError
from envguard.matrix.causes import compile_pattern
from envguard.matrix.rows import Provenance
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.matrix.reading import Document

_ON = frozenset({"1", "true", "yes", "on", "y"})
_OFF = frozenset({"0", "false", "no", "off", "n"})
_SIZE = re.compile(r"(?P<number>\d{1,12}(?:\.\d{1,6})?)\s?(?P<unit>[kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
# The value behind a name: after a sign any word, after a blank only what can be nothing else.
_VALUE = (
    r"(?:[\"'`\])]{0,3}\s{0,3}"
    r"(?:(?:=|:|(?<=[\"'`]),|\bis\b|\bto\b|set by environment to|set to)\s{0,3}"
    r"[\"'`]?(?P<value>[\w.:/+-]{1,60})|\s(?P<value2>\d[\w.]{0,20}|[Tt]rue|[Ff]alse|[Nn]one)\b))?"
)


class Fits(Enum):
    """Which values do as much as the one that a remedy names."""

    EQUAL = "equal"
    AT_LEAST = "at-least"
    AT_MOST = "at-most"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting that remedies change.

    Args:
        id: Its name in the tables.
        names: As texts write it; ``-`` and ``_`` in them are one.
        value: What it is set to where neither a text nor a remedy says it.
        fits: Which values do as much as the one that a remedy names.
        is_flag: It stands without a value.
        said: Pattern of words by which a remedy asks for it without its name; empty for none.
        observes: It only tells more, so that it speaks against no cause.
        next: What to try where it was tried in vain; empty for nothing.
        next_command: The same as a command; empty where it is none.
    """

    id: str
    names: tuple[str, ...]
    provenance: Provenance
    value: str = ""
    fits: Fits = Fits.EQUAL
    is_flag: bool = False
    said: str = ""
    observes: bool = False
    next: str = ""
    next_command: tuple[str, ...] = ()

    @property
    def regex(self) -> str:
        """The pattern of a place where a text writes it; its ``value`` or ``value2`` where told."""
        names = "|".join(re.sub(r"(?:\\-|_)", "[-_]", re.escape(name)) for name in self.names)
        return rf"(?<![\w-])(?:--)?(?:{names})(?![\w-]){_VALUE}"

    @property
    def literals(self) -> tuple[str, ...]:
        """Texts of which a line that writes it holds one."""
        bare = [name.lstrip("-") for name in self.names]
        spelt = [text for name in bare for text in (name.replace("-", "_"), name.replace("_", "-"))]
        return tuple(dict.fromkeys(spelt))

    def does(self, found: str, wanted: str) -> bool:
        """Whether a value that was found does what the wanted one would."""
        if self.fits is Fits.EQUAL:
            return _plain(found) == _plain(wanted)
        sizes = _size(found), _size(wanted)
        if sizes[0] is None or sizes[1] is None:
            return False
        return sizes[0] >= sizes[1] if self.fits is Fits.AT_LEAST else sizes[0] <= sizes[1]


def _plain(value: str) -> str:
    text = value.strip("\"'`.,;:").lower()
    return "true" if text in _ON else "false" if text in _OFF else text


def _size(value: str) -> float | None:
    match = _SIZE.fullmatch(value.strip("\"'`.,;:"))
    return float(match["number"]) * _UNITS[match["unit"].lower()] if match else None


class RemedySettingsTable:
    """The rows of ``settings.toml``.

    Raises:
        MatrixError: A row misses a field, is stated twice, or its ``said`` is no pattern.
    """

    def __init__(self, document: Document) -> None:
        self.settings = tuple(row.build(SettingRow) for row in document.rows("setting"))
        self._rows = {row.id: row for row in self.settings}
        if len(self._rows) < len(self.settings):
            raise MatrixError(f"{document.name}: setting: an id is stated twice")
        self._written = [(row, compile_pattern(row.id, row.regex)) for row in self.settings]
        self._said = [(row, compile_pattern(row.id, row.said)) for row in self.settings if row.said]

    def row(self, name: str) -> SettingRow:
        """The setting of this name.

        Raises:
            KeyError: There is none.
        """
        return self._rows[name]

    def before(self, row: SettingRow, text: str) -> str:
        """What stands in a line before the first place that writes a setting."""
        match = next(pattern for one, pattern in self._written if one is row).search(text)
        return text[: match.start()] if match is not None else ""

    def asked_for(self, text: str) -> Iterator[tuple[SettingRow, str]]:
        """The settings that a remedy changes, each with the value that it names.

        Args:
            text: What it says, or its command; a name without a value asks for nothing.
        """
        for row, pattern in self._written:
            for match in pattern.finditer(text):
                value = match["value"] or match["value2"] or (row.value if row.is_flag else "")
                if value:
                    yield row, value
        for row, pattern in self._said:
            if pattern.search(text):
                yield row, row.value
