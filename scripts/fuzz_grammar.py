"""Changes documents so that they stay whole in form and become odd in what they say.

A document is a tree of dicts, lists and leaves. It is written with a leaf of another type, a key
that is missing, doubled or moved; texts are changed by lines and numbers. Cut and garbled bytes
are refused by the first decoder, so what lies behind it is only reached in this way.
"""

from __future__ import annotations

import copy
import json
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_WORD = re.compile(r"[A-Za-z0-9_.+-]+")
_DEEP = 3000


@dataclass(frozen=True, slots=True)
class Raw:
    """A leaf that is written as it stands: what no value of Python is written as.

    Args:
        text: Of the document.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Doubled:
    """A value whose key is written twice.

    Args:
        first: What the first key holds.
        second: What the second one holds.
    """

    first: Any
    second: Any


# Texts that a pattern, a version or a number may take to be what it is not.
WORDS = (
    "", " ", "x", "x" * 5000, "a/" * 300, "nan", "inf", "-inf", "1e5", "1e400", "-1", "0", "0x10",
    "1_0", "9" * 400, "9" * 5000, "1.2.3.4.5.6.7", "1.", ".1", "..", "1!2.0", "2.7.1+cu128",
    "2.7.1+cu", "+cu128", "cu999999", "cu1", "12.10", "12", "v12.4", "\u00b2", "\u0661\u0662",
    "\uff11\uff12", "true", "None", "null", "auto", "\ud800", "\x00", "\x1b[31m", "\u202e", "\n",
    "a\nb", "{0}", "{name}", "%s", "${HOME}", "/", "/dev/null", "/proc/self/mem", ".", "../..",
    "~", "-", "--help", "==", ">=1,<2", "torch==", "[", "sm_", "sm_90a", "sm_9", "compute_120f",
    "9.0", "90", "0.0", "999999.999999", "16G", "1e30G", "GPU-", "cpu", "nvme", "none", "bf16",
)  # fmt: skip
_NUMBERS = (
    0, 1, -1, 2, 3, 4, 7, 0.5, -0.5, 1e-320, 1e15, 1e16, 1e300, 2**31, 2**53 + 1, 2**63, 2**64,
    10**100, 10**400, -(10**400), Raw("NaN"), Raw("Infinity"), Raw("-Infinity"), Raw("1e400"),
    Raw("-1e400"), Raw("1E5"), Raw("0.0"), Raw("-0"), Raw("9" * 5000),
)  # fmt: skip
_SHAPES: tuple[Any, ...] = (
    None, True, False, [], {}, [[]], [None], [{}], [1, "a"], {"": None}, {"a": {}}, {"stage": 3},
    [0, 0], ["a"] * 200, Raw("[" * _DEEP + "]" * _DEEP), Raw('{"a":' * _DEEP + "1" + "}" * _DEEP),
)  # fmt: skip


def odd_leaf(random: Random) -> Any:
    """A value that few readers have thought of."""
    return copy.deepcopy(random.choice(random.choice((WORDS, _NUMBERS, _SHAPES))))


def _places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(tree, dict | list):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for key, value in items:
            yield from _places(value, (*path, key))


def _holder(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def change_tree(tree: Any, random: Random, most: int = 3) -> Any:
    """A copy of a document with up to ``most`` changes.

    Args:
        tree: Dicts, lists, texts, numbers, truth values and None.
        random: Where the choices come from.
        most: Changes at most.
    """
    changed = copy.deepcopy(tree)
    for _ in range(random.choice((1, 1, random.randint(1, most)))):
        places = list(_places(changed))
        path = random.choice(places)
        if not path:
            continue
        _change_at(_holder(changed, path[:-1]), path[-1], random, changed, places)
    return changed


def _change_at(
    holder: Any, key: Any, random: Random, tree: Any, places: list[tuple[Any, ...]]
) -> None:
    match random.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[key] = Doubled(holder[key], odd_leaf(random))
        case 2:
            holder[key] = copy.deepcopy(_holder(tree, random.choice(places)))
        case 3 if isinstance(holder, list):
            holder.extend(copy.deepcopy(holder[key]) for _ in range(random.choice((1, 3, 300))))
        case 4 if isinstance(holder, dict):
            holder[random.choice(WORDS)] = holder.pop(key)
        case 5 if isinstance(holder[key], str):
            holder[key] = change_words(holder[key], random)
        case _:
            holder[key] = odd_leaf(random)


def change_words(text: str, random: Random) -> str:
    """A text with one of its words or numbers replaced."""
    found = list(random.choice((_NUMBER, _WORD)).finditer(text))
    if not found:
        return text + random.choice(WORDS)
    match = random.choice(found)
    return text[: match.start()] + random.choice(WORDS) + text[match.end() :]


def change_text(text: str, others: tuple[str, ...], random: Random, most: int = 6) -> str:
    """A text with lines dropped, doubled, moved, mixed in from others, and words replaced.

    Args:
        text: What is changed.
        others: Where lines come from.
        random: Where the choices come from.
        most: Changes at most.
    """
    lines = text.splitlines() or [""]
    for _ in range(random.choice((1, 2, random.randint(1, most)))):
        at = random.randrange(len(lines))
        match random.randrange(8):
            case 0 if len(lines) > 1:
                del lines[at]
            case 1:
                lines[at:at] = [lines[at]] * random.choice((1, 2, 200))
            case 2:
                other = random.choice(others).splitlines() or [""]
                start = random.randrange(len(other))
                lines[at:at] = other[start : start + random.randint(1, 30)]
            case 3:
                to = random.randrange(len(lines))
                lines[at], lines[to] = lines[to], lines[at]
            case 4:
                lines[at] = lines[at][: random.randrange(len(lines[at]) + 1)]
            case _:
                lines[at] = change_words(lines[at], random)
    return "\n".join(lines) + random.choice(("\n", ""))


def write_json(tree: Any) -> str:
    """JSON, with what Python's own encoder cannot say."""
    match tree:
        case Raw():
            return tree.text
        case dict():
            pairs = (pair for key, value in tree.items() for pair in _pairs(key, value))
            return "{" + ", ".join(f"{json.dumps(k)}: {write_json(v)}" for k, v in pairs) + "}"
        case list():
            return "[" + ", ".join(map(write_json, tree)) + "]"
        case Doubled():  # the value of a list
            return write_json(tree.second)
        case int() if not isinstance(tree, bool):
            return _digits(tree)
        case _:
            return json.dumps(tree)


def _digits(number: int) -> str:
    return f"{number}"


def _pairs(key: str, value: Any) -> tuple[tuple[str, Any], ...]:
    if isinstance(value, Doubled):
        return ((key, value.first), (key, value.second))
    return ((key, value),)


def write_toml(tree: dict[str, Any]) -> str:
    """TOML: one line for each key of the document, tables inside it inline."""
    pairs = [pair for key, value in tree.items() for pair in _pairs(key, value)]
    return "".join(f"{_toml_key(key)} = {_toml_value(value)}\n" for key, value in pairs)


def _toml_key(key: str) -> str:
    return json.dumps(key.replace("\ud800", "?"))


def _toml_value(value: Any) -> str:
    match value:
        case Raw():
            words = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf", "-0": "0x" + "f" * 5000}
            return words.get(value.text, value.text).replace('{"a":', '{"a"=')
        case dict():
            pairs = (pair for key, item in value.items() for pair in _pairs(key, item))
            return "{" + ", ".join(f"{_toml_key(k)} = {_toml_value(v)}" for k, v in pairs) + "}"
        case list():
            return "[" + ", ".join(map(_toml_value, value)) + "]"
        case Doubled():
            return _toml_value(value.second)
        case None:
            return '""'
        case str():
            return json.dumps(value.replace("\ud800", "?")).replace("\x7f", "?")
        case bool():
            return "true" if value else "false"
        case int():
            return _digits(value)
        case float():
            return repr(value)
        case _:
            return f"{value}"  # a date or a time


def write_yaml(tree: Any, indent: str = "") -> str:
    """YAML as accelerate writes it: mappings by indentation, the rest in flow form."""
    if not isinstance(tree, dict):
        return f"{write_json(tree)}\n"
    lines = []
    for key, value in (pair for k, v in tree.items() for pair in _pairs(k, v)):
        if isinstance(value, dict) and value:
            lines.append(f"{indent}{key}:\n{write_yaml(value, indent + '  ')}")
        else:
            plain = isinstance(value, str) and re.fullmatch(r"[\w./-]+", value)
            lines.append(f"{indent}{key}: {value if plain else write_json(value)}\n")
    return "".join(lines)


def change_bytes(data: bytes, random: Random, most: int = 6) -> bytes:
    """Bytes of which some fields, mostly in the headers, hold other numbers."""
    changed = bytearray(data)
    for _ in range(random.randint(1, most)):
        last = len(changed) - 9
        at = random.randrange(min(last, random.choice((64, 512, last))))
        at -= at % random.choice((1, 2, 4, 8))
        width, form = random.choice(((1, "<B"), (2, "<H"), (4, "<I"), (8, "<Q")))
        number = random.choice(
            (0, 1, 7, 0x7F, 0xFF, 0xFFFF, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, len(data))
        )
        changed[at : at + width] = struct.pack(form, number % 256**width)
    return bytes(changed[: random.randrange(len(changed))] if random.random() < 0.1 else changed)


Writer = Callable[[Any], str]
