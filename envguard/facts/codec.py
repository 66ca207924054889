"""Frozen dataclasses to JSON-shaped dicts and back, and from rows, driven by their annotations.

A class is taken apart once: what its annotations ask for becomes a reader for each field. Places
are put together only where something is wrong, and texts that tables say in many rows are parsed
once.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.errors import DocumentError
from envguard.facts.versions import refuse_long_numbers

T = TypeVar("T")

# A tuple that a table's row states as one text: words with single spaces between.
WordsOf = Annotated[tuple[T, ...], "words"]

# What was parsed already, by type and text.
Memo = dict[Hashable, Any]
_Reader = Callable[[Any, Memo], Any]


def parse_specifier(text: str) -> SpecifierSet:
    """Read a specifier.

    Raises:
        ValueError: It is none; packaging's own error is one too.
    """
    return SpecifierSet(refuse_long_numbers(text))


# Types without a ``parse`` of their own that are written as a text.
_PARSERS: Mapping[Any, Callable[[str], Any]] = {Version: Version, SpecifierSet: parse_specifier}


def _is_scalar(kind: object) -> bool:
    """Whether a type is written as its text: it has ``parse``, or is one of packaging's."""
    return kind in _PARSERS or hasattr(kind, "parse")


def to_dict(value: object) -> Any:
    """Turn a value into dicts, lists, strings, numbers, booleans and None.

    Versions and other values with a text form become that text; fields whose value is the
    default are kept, so that a reader sees what was known. A field's ``key`` metadata names
    its key where it differs.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Enum():
            return value.value
        case tuple() | list() | frozenset():
            items = sorted(value, key=str) if isinstance(value, frozenset) else value
            return [to_dict(item) for item in items]
        case Mapping():
            return {str(key): to_dict(item) for key, item in value.items()}
        case _ if _is_scalar(type(value)):
            return str(value)
        case _ if is_dataclass(value):
            return {
                f.metadata.get("key", f.name): to_dict(getattr(value, f.name))
                for f in fields(value)
            }
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form")


# Types that a field names and that few commands need: imported when such a field is decoded,
# because building their classes would cost every start.
_LATE = {
    "BinaryFacts": "envguard.facts.binary",
    "LockRecord": "envguard.facts.lock_record",
}


@cache
def _hints(kind: Hashable) -> dict[str, Any]:
    annotations = cast("type", kind).__annotations__
    late = {
        name: getattr(importlib.import_module(module), name)
        for name, module in _LATE.items()
        if any(name in str(text) for text in annotations.values())
    }
    return get_type_hints(cast("type", kind), localns=late, include_extras=True)


def from_dict(kind: type[T], data: object, where: str) -> T:
    """Build a dataclass from what :func:`to_dict` made of it.

    Unknown keys are ignored (a later minor release may add some); missing keys take the
    field's default.

    Args:
        kind: The dataclass.
        data: The decoded JSON object.
        where: Name of the document, the start of every path in messages.

    Raises:
        DocumentError: A value has the wrong shape; the message holds its path.
    """
    try:
        return _build(kind, data, {}, {})
    except _Fault as fault:
        place = fault.place.removeprefix(".")
        problem = fault.problem if place else fault.problem.removeprefix(":")
        raise DocumentError(f"{where}:{place}{problem}") from fault


def from_row(
    kind: type[T],
    data: Mapping[str, object],
    path: str,
    given: Mapping[str, object],
    memo: Memo,
) -> T:
    """Build a dataclass from the fields of a table's row.

    Args:
        kind: The dataclass.
        data: The row's fields.
        path: The row, e.g. ``drivers.toml: generation[3]``: the start of messages.
        given: Values of fields that are not read from the row.
        memo: Of the row's table: a text that it says again is not parsed again.

    Raises:
        DocumentError: A field is missing or has the wrong form; the message holds its path.
    """
    try:
        return _build(kind, data, memo, given)
    except _Fault as fault:
        raise DocumentError(f"{path}{fault.place}{fault.problem}") from fault


class _Fault(Exception):  # noqa: N818 - never leaves this module
    """What is wrong with a value; on its way out it learns where the value stands."""

    def __init__(self, problem: str, place: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.place = place

    def below(self, step: str) -> _Fault:
        self.place = f"{step}{self.place}"
        return self


def _unlike(wanted: str, data: object) -> _Fault:
    return _Fault(f": expected {wanted}, found {_kind_name(data)}")


class _Column(NamedTuple):
    """How a field of a class is read."""

    name: str
    key: str
    read: _Reader
    is_required: bool


@cache
def _columns(kind: Hashable) -> tuple[_Column, ...]:
    hints = _hints(kind)
    return tuple(
        _Column(
            f.name,
            f.metadata.get("key", f.name),
            _reader(hints[f.name]),
            f.default is MISSING and f.default_factory is MISSING,
        )
        for f in fields(cast("Any", kind))
    )


def _build(kind: type[T], data: object, memo: Memo, given: Mapping[str, object]) -> T:
    if not isinstance(data, dict):
        raise _unlike("an object", data)
    values: dict[str, Any] = dict(given)
    for name, key, read, is_required in _columns(cast("Hashable", kind)):
        if name in given:
            continue
        if key in data:
            try:
                values[name] = read(data[key], memo)
            except _Fault as fault:
                raise fault.below(f".{key}")  # noqa: B904 - it is the same
        elif is_required:
            raise _Fault(" is missing", f".{key}")
    return kind(**values)


def shown(data: object) -> str:
    """A value for a message; TOML holds whole numbers that Python writes in no decimal digits."""
    try:
        return f"{data!r:.60}"
    except ValueError:
        return "a number of thousands of digits"


def _kind_name(data: object) -> str:
    match data:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return type(data).__name__


@cache
def _reader(hint: Any) -> _Reader:
    """What reads a value of a type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        return _optional(inner)
    if origin is Annotated:
        return _words(hint, get_args(inner[0])[0])
    if origin in {tuple, frozenset}:
        return _series(origin, inner)
    if origin in {dict, Mapping}:
        return _table(*map(_reader, inner))
    if origin is Literal:
        return _choice(inner)
    if hint is Any or hint is object:
        return lambda data, _: data
    if _is_scalar(hint):
        return _scalar(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _member(hint)
    if is_dataclass(hint):
        return lambda data, memo: _build(cast("type[Any]", hint), data, memo, {})
    return _plain(hint)


def _optional(options: tuple[Any, ...]) -> _Reader:
    (inner,) = [option for option in options if option is not type(None)]
    read = _reader(inner)
    if len(options) == 1 or type(None) not in options:
        return read
    return lambda data, memo: None if data is None else read(data, memo)


def _each(items: Iterable[Any], read: _Reader, memo: Memo) -> list[Any]:
    values: list[Any] = []
    for item in items:
        try:
            values.append(read(item, memo))
        except _Fault as fault:
            raise fault.below(f"[{len(values)}]")  # noqa: B904 - it is the same
    return values


def _series(origin: type[Any], items: tuple[Any, ...]) -> _Reader:
    """Of a list: of one type, or with a type for each place."""
    if origin is tuple and items[1:] != (Ellipsis,):
        return _places(tuple(map(_reader, items)))
    read_item = _reader(items[0])

    def read(data: Any, memo: Memo) -> Any:
        if not isinstance(data, list):
            raise _unlike("a list", data)
        return origin(_each(data, read_item, memo))

    return read


def _places(readers: tuple[_Reader, ...]) -> _Reader:
    def read(data: Any, memo: Memo) -> Any:
        if not isinstance(data, list):
            raise _unlike("a list", data)
        if len(readers) != len(data):
            raise _Fault(f": expected {len(readers)} items, found {len(data)}")
        pairs = zip(readers, data, strict=True)
        return tuple(_each(pairs, lambda pair, memo: pair[0](pair[1], memo), memo))

    return read


def _words(hint: Any, item: Any) -> _Reader:
    read_item = _reader(item)

    def read(data: Any, memo: Memo) -> Any:
        if not isinstance(data, str):
            raise _unlike("a string", data)
        found = memo.get((hint, data))
        if found is None:
            words = data.split(" ") if data else []
            if "" in words:
                raise _Fault(": expected single spaces between words")
            found = memo[hint, data] = tuple(_each(words, read_item, memo))
        return found

    return read


def _table(read_key: _Reader, read_value: _Reader) -> _Reader:
    def read(data: Any, memo: Memo) -> Any:
        if not isinstance(data, dict):
            raise _unlike("an object", data)
        values: dict[Any, Any] = {}
        for key, value in data.items():
            try:
                values[read_key(key, memo)] = read_value(value, memo)
            except _Fault as fault:
                raise fault.below(f".{key}")  # noqa: B904 - it is the same
        return values

    return read


def _choice(options: tuple[Any, ...]) -> _Reader:
    def read(data: Any, _: Memo) -> Any:
        if data not in options:
            raise _Fault(f": {shown(data)} is none of {', '.join(map(str, options))}")
        return data

    return read


def _scalar(hint: Any) -> _Reader:
    parse: Callable[[str], Any] = _PARSERS.get(hint) or hint.parse

    def read(data: Any, memo: Memo) -> Any:
        if not isinstance(data, str):
            raise _unlike("a string", data)
        found = memo.get((hint, data))
        if found is None:
            try:
                found = memo[hint, data] = parse(data)
            except ValueError as err:
                raise _Fault(f": {err}") from err
        return found

    return read


def _member(hint: type[Enum]) -> _Reader:
    def read(data: Any, _: Memo) -> Any:
        try:
            return hint(data)
        except ValueError as err:
            known = ", ".join(str(member.value) for member in hint)
            raise _Fault(f": {shown(data)} is none of {known}") from err

    return read


def _plain(hint: Any) -> _Reader:
    names = {str: "a string", int: "an integer", bool: "a boolean", float: "a number"}
    wanted = names.get(hint, getattr(hint, "__name__", str(hint)))
    kinds = (int, float) if hint is float else hint

    def read(data: Any, _: Memo) -> Any:
        if not isinstance(data, kinds) or (hint is not bool and isinstance(data, bool)):
            raise _unlike(wanted, data)
        return data

    return read
