"""The wording beside the figures: source addresses, notes, and what the facts say in prose only."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.matrix_verified import Verified

_ISSUE = re.compile(r"pytorch/pytorch issue #(\d+)")
# Parts of a source text that are remarks about it and not sources of their own.
_REMARKS = ("find_string id", "first driver inferred", "error name: memory", "last two:")
_RENAMED = {"memory": "unsourced"}


class WordsError(ValueError):
    """A fact carries a remark without wording here, or the wording belongs to no fact."""


@dataclass
class Words:
    """Decoded ``matrix_words.toml``, which remembers what was used of it.

    Args:
        data: The decoded file.
        used: The notes that rows asked for.
        verified: The wheels that were read.
    """

    data: dict[str, Any]
    used: set[tuple[str, str]] = field(default_factory=set)
    verified: Verified = field(default_factory=Verified)

    @classmethod
    def load(cls) -> Words:
        """Read the file beside this module."""
        path = Path(__file__).with_name("matrix_words.toml")
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return cls(data, verified=Verified.load())

    @property
    def checked(self) -> str:
        """ISO date at which the sources were read."""
        return str(self.data["checked"])

    def note(self, kind: str, label: str, *, is_remarked: bool) -> str:
        """The note on a row, possibly empty.

        Args:
            kind: Kind of row, e.g. ``build``.
            label: What names the row there.
            is_remarked: The fact carries a remark.

        Raises:
            WordsError: The fact carries a remark that has no entry.
        """
        notes = self.data["notes"].get(kind, {})
        if label in notes:
            self.used.add((kind, label))
            return str(notes[label])
        if is_remarked:
            raise WordsError(f"no wording for the remark on {kind} {label!r}")
        return ""

    def prose(self, kind: str, label: str) -> Any:
        """What the facts state in prose about a row, or None."""
        return self.data[kind].get(label)

    def unused(self) -> list[str]:
        """Notes that no row asked for."""
        every = {(kind, label) for kind, notes in self.data["notes"].items() for label in notes}
        return sorted(f"{kind} {label}" for kind, label in every - self.used)

    def sources_of(self, text: str) -> list[str]:
        """The source keys in a fact's source text, in order.

        Raises:
            WordsError: A part of it is no source known here.
        """
        keys = []
        for part in text.split("; "):
            if part.startswith(_REMARKS):
                continue
            issue = _ISSUE.match(part)
            word = part.split()[0]
            key = f"iss-{issue[1]}" if issue else _RENAMED.get(word, word.replace(".", "_"))
            if key not in self.data["sources"]:
                raise WordsError(f"no address for source {part!r}")
            if key not in keys:
                keys.append(key)
        return keys

    def address_book(self, rows: list[dict[str, Any]]) -> dict[str, str | tuple[str, str]]:
        """The addresses of all sources that some rows name; a wheel's with its own date."""
        wheels = self.verified.addresses()
        keys = {key for row in rows for key in row["source"]}
        return {key: wheels.get(key) or str(self.data["sources"][key]) for key in keys}
