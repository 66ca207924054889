"""The part of YAML that conda's and pixi's files use: block maps and lists of plain scalars.

No tags, anchors or aliases: what a file of pins does not need is refused with its line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_LINES = 400_000
_MAX_DEPTH = 20
_MAX_LINE = 20_000
_KEY = re.compile(
    r"""("[^"]{1,300}"|'[^']{1,300}'|[^\s#:{}\[\],&*!|>'"%@`-][^:#{}\[\]]{0,300}?):(?:\s+|$)"""
)
_REFUSED = re.compile(r"[&*!%@`?](?=\S)|<<:")


class Scalar(str):
    """A text with the line where it stands."""

    __slots__ = ("line",)

    line: int

    def __new__(cls, text: str, line: int) -> Scalar:
        """A text of a line, counted from 1."""
        made = super().__new__(cls, text)
        made.line = line
        return made


Node = Scalar | list["Node"] | dict[str, "Node"] | None


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    text: str


def parse_block_yaml(text: str, name: str) -> Node:
    """Read a document.

    Args:
        text: The whole file.
        name: Of the file, for messages.

    Returns:
        Maps, lists and :class:`Scalar`; None for an empty value. Every scalar is a text.

    Raises:
        InputError: It is more than the part of YAML that is read; the message names the line.
    """
    lines = _lines(text, name)
    if not lines:
        return None
    node, rest = _node(lines, 0, name, 0)
    if rest != len(lines):
        raise InputError(f"{name}:{lines[rest].number}: indented otherwise than what stands above")
    return node


def _lines(text: str, name: str) -> list[_Line]:
    found: list[_Line] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        if number > _MAX_LINES or len(raw) > _MAX_LINE:
            raise InputError(f"{name}:{number}: more than a file of pins holds")
        said = _without_comment(raw).rstrip()
        if not said.strip() or said.strip() in {"---", "..."}:
            continue
        indent = len(said) - len(said.lstrip(" "))
        if said[indent] == "\t":
            raise InputError(f"{name}:{number}: indented with a tab")
        found.append(_Line(number, indent, said[indent:]))
    return found


def _without_comment(line: str) -> str:
    if "#" not in line:
        return line
    quote = ""
    for position, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"" and (position == 0 or line[position - 1] in " \t:-[,"):
            quote = character
        elif character == "#" and (position == 0 or line[position - 1] in " \t"):
            return line[:position]
    return line


def _node(lines: Sequence[_Line], at: int, name: str, depth: int) -> tuple[Node, int]:
    if depth > _MAX_DEPTH:
        raise InputError(f"{name}:{lines[at].number}: nested too deeply")
    first = lines[at]
    if first.text == "-" or first.text.startswith("- "):
        return _list(lines, at, name, depth)
    if _KEY.match(first.text):
        return _map(lines, at, name, depth)
    return _scalar(first.text, first.number, name), at + 1


def _list(lines: Sequence[_Line], at: int, name: str, depth: int) -> tuple[Node, int]:
    indent = lines[at].indent
    found: list[Node] = []
    while at < len(lines) and lines[at].indent == indent:
        line = lines[at]
        if line.text != "-" and not line.text.startswith("- "):
            break
        said = line.text[1:].lstrip()
        if not said:
            item, at = _nested(lines, at + 1, indent, name, depth)
        else:
            # what stands behind the dash is the first line of a block of its own
            inner = _Line(line.number, indent + len(line.text) - len(said), said)
            end = _end(lines, at + 1, indent)
            block = [inner, *lines[at + 1 : end]]
            item, used = _node(block, 0, name, depth + 1)
            if used != len(block):
                raise InputError(f"{name}:{block[used].number}: indented otherwise than expected")
            at = end
        found.append(item)
    return found, at


def _map(lines: Sequence[_Line], at: int, name: str, depth: int) -> tuple[Node, int]:
    indent = lines[at].indent
    found: dict[str, Node] = {}
    while at < len(lines) and lines[at].indent == indent:
        line = lines[at]
        match = _KEY.match(line.text)
        if match is None:
            raise InputError(f"{name}:{line.number}: expected 'key: value'")
        key, said = match[1].strip("'\""), line.text[match.end() :]
        if key in found:
            raise InputError(f"{name}:{line.number}: {key} stands there twice")
        if said in {"|", ">", "|-", ">-", "|+", ">+"}:
            end = _end(lines, at + 1, indent)
            block = "\n".join(inner.text for inner in lines[at + 1 : end])
            found[key], at = Scalar(block, line.number), end
        elif said:
            found[key], at = _scalar(said, line.number, name), at + 1
        else:
            found[key], at = _nested(lines, at + 1, indent, name, depth, lists_alike=True)
    return found, at


def _nested(
    lines: Sequence[_Line],
    at: int,
    indent: int,
    name: str,
    depth: int,
    *,
    lists_alike: bool = False,
) -> tuple[Node, int]:
    """What stands deeper; a list below a key may stand as deep as the key."""
    if at >= len(lines):
        return None, at
    is_list = lines[at].text == "-" or lines[at].text.startswith("- ")
    if lines[at].indent > indent or (lists_alike and is_list and lines[at].indent == indent):
        return _node(lines, at, name, depth + 1)
    return None, at


def _end(lines: Sequence[_Line], at: int, indent: int) -> int:
    while at < len(lines) and lines[at].indent > indent:
        at += 1
    return at


def _scalar(text: str, number: int, name: str) -> Node:
    said = text.strip()
    if said[0] in "'\"":
        if len(said) < 2 or said[-1] != said[0]:
            raise InputError(f"{name}:{number}: a quote is not closed")
        return Scalar(said[1:-1].replace("''", "'") if said[0] == "'" else said[1:-1], number)
    if said[0] == "[":
        return _flow_list(said, number, name)
    if said == "{}":
        return {}
    if said[0] in "{|>" or _REFUSED.match(said):
        raise InputError(f"{name}:{number}: {said[:60]!r} is not read here")
    return None if said in {"~", "null"} else Scalar(said, number)


def _flow_list(said: str, number: int, name: str) -> Node:
    if not said.endswith("]") or "{" in said or "[" in said[1:]:
        raise InputError(f"{name}:{number}: {said[:60]!r} is not read here")
    words = [word.strip() for word in said[1:-1].split(",")]
    return [_scalar(word, number, name) for word in words if word]
