"""A reader of the little YAML that lock files use, which takes nothing else.

Block mappings and sequences by two spaces of indentation, JSON strings and bare keys; no anchors,
no bare scalars, no flow, no tabs. What it reads, every YAML parser reads as the same.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_KEY = re.compile(r"([a-z]+):(?: (.+))?")


@dataclass
class _Lines:
    items: list[tuple[int, str]]
    place: int = 0

    @property
    def now(self) -> tuple[int, str] | None:
        return self.items[self.place] if self.place < len(self.items) else None


def read_strict_yaml(text: str) -> Any:
    """Read a document.

    Raises:
        ValueError: It uses more than this reader knows.
    """
    items = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if "\t" in line or not line.strip() or indent % 2:
            raise ValueError(f"not plain: {line!r}")
        items.append((indent, line[indent:]))
    lines = _Lines(items)
    value = _block(lines, 0)
    if lines.now is not None:
        raise ValueError(f"left over: {lines.now}")
    return value


def _block(lines: _Lines, indent: int) -> Any:
    first = lines.now
    if first is None or first[0] != indent:
        raise ValueError(f"expected a block at {indent}, found {first}")
    return _sequence(lines, indent) if first[1].startswith("- ") else _mapping(lines, indent)


def _sequence(lines: _Lines, indent: int) -> list[Any]:
    found: list[Any] = []
    while (now := lines.now) is not None and now[0] == indent and now[1].startswith("- "):
        rest = now[1][2:]
        if _KEY.fullmatch(rest):
            lines.items[lines.place] = (indent + 2, rest)
            found.append(_mapping(lines, indent + 2))
        else:
            found.append(_scalar(rest))
            lines.place += 1
    return found


def _mapping(lines: _Lines, indent: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while (now := lines.now) is not None and now[0] == indent and not now[1].startswith("- "):
        match = _KEY.fullmatch(now[1])
        if match is None or match[1] in found:
            raise ValueError(f"no new key: {now[1]!r}")
        lines.place += 1
        found[match[1]] = _scalar(match[2]) if match[2] else _block(lines, indent + 2)
    return found


def _scalar(text: str) -> str:
    value = json.loads(text)
    if not isinstance(value, str):
        raise ValueError(f"{text} is no text")  # noqa: TRY004 - one error for all that is not plain
    return value
