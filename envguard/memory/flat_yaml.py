"""Reads the small part of YAML that accelerate's configuration files are written in.

A YAML library is no dependency of envguard, and these files are mappings of scalars, one level of
mappings inside. What goes beyond that (lists, anchors, flow collections, folded texts) is refused
with its line, never guessed at.
"""

from __future__ import annotations

import re

from envguard.errors import DocumentError

_KEY = re.compile(r"( *)([A-Za-z_][A-Za-z0-9_.-]*) *:(?: +(.*))?")
_NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "yes": True, "false": False, "no": False, "null": None, "~": None}
_REFUSED = ("[", "{", "&", "*", "!", "|", ">", "@", "`", "%", "- ")

Scalar = str | int | float | bool | None


def parse_flat_yaml(text: str, where: str) -> dict[str, object]:
    """Read a mapping of scalars and of mappings of scalars.

    Args:
        text: The file.
        where: Its name, for messages.

    Raises:
        DocumentError: A line is something else; the message names it.
    """
    document: dict[str, object] = {}
    inner: dict[str, object] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        bare = _without_comment(line)
        if not bare.strip() or bare.strip() == "---":
            continue
        place = f"{where}:{number}"
        indent, key, value = _split(bare, place)
        if indent == 0:
            inner = {} if value == "" else None
            target = document
        elif inner is None:
            raise DocumentError(f"{place}: {key!r} is indented below something that has a value")
        else:
            target = inner
        if key in target:
            raise DocumentError(f"{place}: {key!r} is stated twice")
        target[key] = inner if indent == 0 and inner is not None else _scalar(value, place)
    return {key: _settled(value) for key, value in document.items()}


def _settled(value: object) -> object:
    """A key without a value and without lines below it means null."""
    return None if value == {} else value


def _without_comment(line: str) -> str:
    if "\t" in line.partition("#")[0]:
        return line.expandtabs(1)
    quoted = line.count('"') >= 2 or line.count("'") >= 2
    return line if quoted else re.sub(r"(^| )#.*", "", line).rstrip()


def _split(line: str, place: str) -> tuple[int, str, str]:
    match = _KEY.fullmatch(line.rstrip())
    if match is None:
        raise DocumentError(
            f"{place}: {line.strip()[:40]!r} is not a plain `key: value` line",
            hint="lists and nested collections are not read; give a DeepSpeed or "
            "TrainingArguments JSON instead",
        )
    return len(match[1]), match[2], (match[3] or "").strip()


def _scalar(text: str, place: str) -> Scalar:
    if text in {"{}", "[]", ""}:
        return None
    if text.startswith(_REFUSED):
        raise DocumentError(f"{place}: {text[:40]!r} is not a plain value")
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    word = text.lower()
    if word in _WORDS:
        return _WORDS[word]
    if _NUMBER.fullmatch(text):
        number = float(text.replace("_", ""))
        return int(number) if number.is_integer() and "." not in text else number
    return text
