"""What text from elsewhere looks like where a terminal, a log page or an editor shows it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# What a terminal obeys (C0 but newline and tab, DEL, C1), and what makes a reader see another text
# than the one that stands there: soft hyphen, marks of direction and of no width, line and
# paragraph separators, halves of surrogate pairs, invisible operators, annotation marks, tags.
# Source: Unicode Standard, general categories Cc, Cf, Cs, Zl, Zp; UTS #39, 5.4.
_HOSTILE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
)
_MARK = re.compile(f"[{_HOSTILE}]")
_OUR_COLOUR = re.compile(rf"\x1b\[[0-9;]{{1,16}}m|[{_HOSTILE}]")


def printable(text: str) -> str:
    """Text that only shows itself: each control character and invisible mark becomes ``?``.

    Newlines and tabs stay. This is no escaping for HTML, XML or a shell.
    """
    return text if text.isascii() and text.isprintable() else _MARK.sub("?", text)


def one_line(text: str) -> str:
    """:func:`printable` text without line ends, for a place that has one line."""
    return printable(text).replace("\n", "?").replace("\t", " ")


def printable_in_colour(text: str) -> str:
    """:func:`printable` text that keeps ANSI colours, which the program itself wrote into it."""
    return _OUR_COLOUR.sub(lambda match: match[0] if match[0].startswith("\x1b[") else "?", text)


def escaped_in_json(document: str) -> str:
    r"""A JSON document with the same values, the hostile characters written as ``\uXXXX``.

    Args:
        document: Valid JSON, which has such characters within strings only.
    """
    return _MARK.sub(_json_escape, document)


def clean_document(value: Any, clean: Callable[[str], str] = printable) -> Any:
    """A copy of what a JSON document is made of, with every text in it made printable."""
    match value:
        case str():
            return clean(value)
        case dict():
            return {clean_document(k, clean): clean_document(v, clean) for k, v in value.items()}
        case list() | tuple():
            return type(value)(clean_document(item, clean) for item in value)
        case _:
            return value


def _json_escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
