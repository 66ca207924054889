"""Settings from several files and options: where each was stated, and when two contradict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from envguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stated:
    """A value and the option or field that states it, or whose default it is."""

    value: object
    where: str
    is_default: bool = False


@dataclass(slots=True)
class Settings:
    """Values by name; a name that is missing is not stated.

    Args:
        values: What is stated.
        autos: Names that a DeepSpeed configuration leaves to transformers (``"auto"``).
        notes: Remarks for the reader.
    """

    values: dict[str, Stated] = field(default_factory=dict)
    autos: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def state(self, name: str, value: object, where: str, *, is_default: bool = False) -> None:
        """State a value; None states nothing.

        Args:
            name: Of the setting.
            value: Its value.
            where: The option or field.
            is_default: A file leaves it out, and this is what its framework takes then.

        Raises:
            InputError: Another value is stated already.
        """
        if value is None:
            return
        old = self.values.get(name)
        if old is not None and old.value != value:
            raise InputError(
                f"{where} is {_text(value)}, but {old.where} is {_text(old.value)}",
                hint="state it once, or the same in both places",
            )
        if old is None:
            self.values[name] = Stated(value, where, is_default)

    def overrule(self, name: str, value: object, where: str) -> None:
        """State a value over a default; what a file states outright still contradicts it."""
        old = self.values.get(name)
        if value is not None and old is not None and old.is_default:
            del self.values[name]
        self.state(name, value, where)

    def get(self, name: str, kind: type[T]) -> T | None:
        """A value of a known kind, or None."""
        stated = self.values.get(name)
        if stated is None:
            return None
        if not isinstance(stated.value, kind):
            raise InputError(f"{stated.where}: {stated.value!r} is not usable here")
        return stated.value

    def where(self, name: str) -> str:
        """Who states it, or an empty text."""
        stated = self.values.get(name)
        return stated.where if stated else ""


def _text(value: object) -> str:
    return f"{getattr(value, 'value', value)!s:.60}"


def merge_settings(parts: Iterable[Settings]) -> Settings:
    """Put settings together.

    Raises:
        InputError: Two of them state different values for one thing.
    """
    whole = Settings()
    for part in parts:
        for name, stated in part.values.items():
            whole.state(name, stated.value, stated.where, is_default=stated.is_default)
        whole.autos |= part.autos
        whole.notes += part.notes
    return whole
