"""Frozen dataclasses that are made quickly: the standard ones are half of what a start costs.

``dataclasses.dataclass`` writes the source of six methods for each class and compiles it, which
takes half a millisecond; a command loads 150 such classes and makes values of a third of them. Here
the methods that need not be written for a class are shared by all: comparing, hashing, printing,
pickling, and refusing a change. What makes a value is written when the first one is made. All else
is the standard one's, and type checkers see nothing but it.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: Any = None, /, *, frozen: bool = False, slots: bool = False, **rest: Any
    ) -> Any:
        """As :func:`dataclasses.dataclass`, which makes all that is not frozen or is ordered."""
        if not frozen or rest:
            return dataclasses.dataclass(cls, frozen=frozen, slots=slots, **rest)
        return _make(slots) if cls is None else _make(slots)(cls)


def _make(slots: bool) -> Callable[[type[Any]], type[Any]]:
    make = dataclasses.dataclass(init=False, slots=slots, eq=False, repr=False)
    shared = {**_SHARED, **(_PICKLING if slots else {})}

    def wrap(cls: type[Any]) -> type[Any]:
        own = set(cls.__dict__)
        made = make(cls)
        names = [field.name for field in dataclasses.fields(made) if field.compare]
        made.__compared__ = attrgetter(*(names or ["__class__"]))
        for name, method in (*shared.items(), ("__init__", _FirstInit(made))):
            if name not in own:
                setattr(made, name, method)
        return made

    return wrap


class _FirstInit:
    """Stands for what makes values of a class until somebody asks for it: then it is written."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __get__(self, value: Any, owner: Any) -> Any:
        init = self._cls.__init__ = _write_init(self._cls)
        return init if value is None else init.__get__(value, owner)


def _write_init(cls: Any) -> Callable[..., None]:
    """The function that sets each field, frozen as the value is."""
    scope: dict[str, Any] = {"_set": object.__setattr__, "_none": MISSING}
    plain, by_name, body = ["self"], ["*"], []
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        default = ""
        if field.default is not MISSING:
            scope[f"_default_{name}"] = field.default
            default = f"=_default_{name}"
        elif field.default_factory is not MISSING:
            scope[f"_make_{name}"] = field.default_factory
            default, value = "=_none", f"_make_{name}() if {name} is _none else {name}"
        (by_name if field.kw_only else plain).append(name + default)
        body.append(f"  _set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("  self.__post_init__()")
    words = ", ".join([*plain, *(by_name if len(by_name) > 1 else [])])
    lines = [f"def write({', '.join(scope)}):", f" def __init__({words}):", *(body or ["  pass"])]
    made: dict[str, Any] = {}
    # In the names of the class's module, in which what asks for the hints of types looks for them.
    names = sys.modules[cls.__module__].__dict__
    exec("\n".join([*lines, " return __init__"]), names, made)  # noqa: S102 - of names of fields
    init: Callable[..., None] = made["write"](**scope)
    hints = {field.name: field.type for field in dataclasses.fields(cls)}
    init.__annotations__ = {**hints, "return": None}
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _refuse_change(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_removal(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _equals(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self.__compared__(self) == self.__compared__(other)


def _hash(self: Any) -> int:
    return hash(self.__compared__(self))


def _repr(self: Any) -> str:
    fields = (field for field in dataclasses.fields(self) if field.repr)
    said = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields)
    return f"{self.__class__.__qualname__}({said})"


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_SHARED = {
    "__eq__": _equals,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _refuse_change,
    "__delattr__": _refuse_removal,
}
_PICKLING = {"__getstate__": _get_state, "__setstate__": _set_state}
