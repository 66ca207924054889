"""Takes values out of decoded configurations: of the type that is meant, or an error with place.

A decoded file holds any type at any place: a list where a word is meant cannot be looked up, and
a number of 400 digits fits no float. Every reader of a training configuration takes its values
through here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from envguard.errors import DocumentError

T = TypeVar("T")
Object = Mapping[str, object]


def stated_section(document: Object, name: str, where: str) -> Object | None:
    """An object inside a document; None where it is missing or null.

    Args:
        document: The decoded object around it.
        name: Its key.
        where: Name and place of the document, the start of the message.

    Raises:
        DocumentError: It is something else.
    """
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise DocumentError(f"{where}: {name}: expected an object, found {shown(value)}")
    return value


def stated_flag(value: object, place: str) -> bool:
    """A truth value.

    Raises:
        DocumentError: It is something else.
    """
    if not isinstance(value, bool):
        raise DocumentError(f"{place}: expected true or false, found {shown(value)}")
    return value


def stated_text(value: object, place: str) -> str:
    """A text.

    Raises:
        DocumentError: It is something else.
    """
    if not isinstance(value, str):
        raise DocumentError(f"{place}: expected a text, found {shown(value)}")
    return value


def stated_number(
    value: object, place: str, *, least: int, most: int, what: str = "a whole number"
) -> int:
    """A whole number; ``1e9``, which JSON knows as a float, is one too.

    Args:
        value: What the file holds.
        place: Of the value, the start of the message.
        least: Smallest number taken.
        most: Largest number taken.
        what: What is meant, for the message.

    Raises:
        DocumentError: It is something else, or out of bounds.
    """
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise DocumentError(f"{place}: {shown(value)} is not {what} from {least} to {most}")
    return number


def stated_choice(value: object, place: str, choices: Mapping[str | int, T]) -> T:
    """What one of a few words or numbers stands for.

    Args:
        value: What the file holds.
        place: Of the value, the start of the message.
        choices: Meanings by word or number.

    Raises:
        DocumentError: It is none of them.
    """
    # true equals 1 where keys are compared
    is_key = isinstance(value, str | int) and not isinstance(value, bool)
    if not is_key or value not in choices:
        known = ", ".join(map(str, choices))
        raise DocumentError(f"{place}: {shown(value)} is none of {known}")
    return choices[value]  # type: ignore[index]  # proven a text or a number


def shown(value: object) -> str:
    """A value of any size as messages show it."""
    return f"{value!r:.40}"
