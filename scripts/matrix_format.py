"""Writes tables in their one canonical form: arrays of rows, one row a line, sources last."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Lists that are written as one text of words: reading them is on every command's path.
_WORDS = frozenset(
    {
        "aliases",
        "also",
        "backends",
        "build_tags",
        "more_pythons",
        "pythons",
        "rocm",
        "source",
        "tags",
        "targets",
        "torch",
        "torchaudio",
        "torchvision",
        "unknown",
        "unverified",
    }
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def render_table(
    header: str,
    scalars: Mapping[str, object],
    arrays: Mapping[str, Sequence[Mapping[str, object]]],
    sources: Mapping[str, str | tuple[str, str]],
    checked: str,
) -> str:
    """The text of a table file.

    Args:
        header: Comment lines without their marks.
        scalars: Plain values at the top.
        arrays: Rows by array name, already in their order.
        sources: Address of each source key, with a date where it was read on another day.
        checked: ISO date at which the sources were read.
    """
    lines = [f"# {line}" for line in header.splitlines()]
    lines.extend(f"{_key(name)} = {_value(value)}" for name, value in scalars.items())
    for name, rows in arrays.items():
        lines.append(f"{_key(name)} = [")
        lines.extend(f"  {_value(row)}," for row in rows)
        lines.append("]")
    if sources:
        lines.append("[sources]")
        for key, url in sorted(sources.items()):
            address, day = (url, checked) if isinstance(url, str) else url
            lines.append(f"{_key(key)} = {_value({'url': address, 'checked': day})}")
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name)


def _field(name: str, value: object) -> str:
    if name in _WORDS and isinstance(value, list):
        return _value(" ".join(value))
    return _value(value)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case dict() if not value:
            return "{}"
        case dict():
            return f"{{ {', '.join(f'{_key(k)} = {_field(k, v)}' for k, v in value.items())} }}"
        case _:
            raise TypeError(f"{type(value).__name__} has no place in a table")
