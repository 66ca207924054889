"""Frozen dataclasses to JSON-shaped dicts and back, driven by their annotations."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.errors import DocumentError

T = TypeVar("T")


def _is_scalar(kind: object) -> bool:
    """Whether a type is written as its text: it has ``parse``, or is one of packaging's."""
    return kind is Version or kind is SpecifierSet or hasattr(kind, "parse")


def to_dict(value: object) -> Any:
    """Turn a value into dicts, lists, strings, numbers, booleans and None.

    Versions and other values with a text form become that text; fields whose value is the
    default are kept, so that a reader sees what was known. A field's ``json`` metadata names
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
                f.metadata.get("json", f.name): to_dict(getattr(value, f.name))
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
    return get_type_hints(cast("type", kind), localns=late)


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
    return _build(kind, data, f"{where}:")


def from_row(
    kind: type[T], data: Mapping[str, object], path: str, given: Mapping[str, object]
) -> T:
    """Build a dataclass from the fields of a table's row.

    Args:
        kind: The dataclass.
        data: The row's fields.
        path: The row, e.g. ``drivers.toml: generation[3]``: the start of messages.
        given: Values of fields that are not read from the row's field of that name.

    Raises:
        DocumentError: A field is missing or has the wrong form; the message holds its path.
    """
    return _build(kind, dict(data), path, given)


def _build(kind: type[T], data: object, path: str, given: Mapping[str, object] | None = None) -> T:
    if not isinstance(data, dict):
        colon = "" if path.endswith(":") else ":"
        raise DocumentError(f"{path}{colon} expected an object, found {_kind_name(data)}")
    hints = _hints(cast("Hashable", kind))
    values: dict[str, Any] = dict(given or {})
    for f in fields(kind):  # type: ignore[arg-type]  # T is a dataclass by contract
        if f.name in values:
            continue
        key = f.metadata.get("json", f.name)
        inner = f"{path}{key}" if path.endswith(":") else f"{path}.{key}"
        if key in data:
            values[f.name] = _convert(hints[f.name], data[key], inner)
        elif f.default is MISSING and f.default_factory is MISSING:
            raise DocumentError(f"{inner} is missing")
    return kind(**values)


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


def _convert(hint: Any, data: object, path: str) -> Any:
    origin = get_origin(hint)
    if origin in {Union, types.UnionType}:
        options = get_args(hint)
        if data is None and type(None) in options:
            return None
        (inner,) = [option for option in options if option is not type(None)]
        return _convert(inner, data, path)
    if origin is tuple:
        return _convert_tuple(get_args(hint), data, path)
    if hint is Any or hint is object:
        return data
    if origin in {dict, Mapping}:
        return _convert_mapping(get_args(hint)[1], data, path)
    if _is_scalar(hint):
        return _convert_scalar(hint, data, path)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _convert_enum(hint, data, path)
    if is_dataclass(hint):
        return _build(hint, data, path)  # type: ignore[arg-type]  # a class, not an instance
    return _convert_plain(hint, data, path)


def _convert_mapping(hint: Any, data: object, path: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise DocumentError(f"{path}: expected an object, found {_kind_name(data)}")
    return {key: _convert(hint, value, f"{path}.{key}") for key, value in data.items()}


def _convert_tuple(items: tuple[Any, ...], data: object, path: str) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise DocumentError(f"{path}: expected a list, found {_kind_name(data)}")
    if len(items) == 2 and items[1] is Ellipsis:
        return tuple(_convert(items[0], item, f"{path}[{i}]") for i, item in enumerate(data))
    if len(items) != len(data):
        raise DocumentError(f"{path}: expected {len(items)} items, found {len(data)}")
    return tuple(
        _convert(item, value, f"{path}[{i}]")
        for i, (item, value) in enumerate(zip(items, data, strict=True))
    )


def _convert_scalar(hint: Any, data: object, path: str) -> Any:
    if not isinstance(data, str):
        raise DocumentError(f"{path}: expected a string, found {_kind_name(data)}")
    parse: Callable[[str], Any] = hint.parse if hasattr(hint, "parse") else hint
    try:
        return parse(data)
    except ValueError as err:
        raise DocumentError(f"{path}: {err}") from err


def _convert_enum(hint: type[Enum], data: object, path: str) -> Enum:
    try:
        return hint(data)
    except ValueError as err:
        known = ", ".join(str(member.value) for member in hint)
        raise DocumentError(f"{path}: {data!r} is none of {known}") from err


def _convert_plain(hint: Any, data: object, path: str) -> Any:
    fits = (isinstance(data, hint) and not (hint is int and isinstance(data, bool))) or (
        hint is float and isinstance(data, int)
    )
    if not fits:
        names = {str: "a string", int: "an integer", bool: "a boolean", float: "a number"}
        wanted = names.get(hint, getattr(hint, "__name__", str(hint)))
        raise DocumentError(f"{path}: expected {wanted}, found {_kind_name(data)}")
    return data
