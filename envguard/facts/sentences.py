"""Sentences that a person reads: English text that still knows its template and its values."""

from __future__ import annotations

from string import Formatter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self


class Text(str):
    """A finished English sentence, with the template and the values that it was made of.

    It is a str in every way: it is compared, hashed and written to JSON as its text. What str's
    own methods return (``strip``, ``+``) is a plain str: sentences are joined by
    :func:`join_sentences`, or as values of a further template.

    Args:
        text: The finished sentence.
        template: With ``{name}`` where values stand: what a translation goes by.
        values: By name; a value may be a Text itself.
    """

    __slots__ = ("template", "values")

    template: str
    values: Mapping[str, object]

    def __new__(cls, text: str, template: str, values: Mapping[str, object]) -> Self:
        """The text, with what it was made of."""
        made = super().__new__(cls, text)
        made.template, made.values = template, values
        return made

    def __getnewargs__(self) -> tuple[str, str, Mapping[str, object]]:  # type: ignore[override]
        return str(self), self.template, self.values


def say(template: str, /, **values: object) -> Text:
    """A sentence: a template with its values filled in.

    Args:
        template: English, ``{name}`` or ``{name:.1f}`` for a value, ``{{`` for a brace.
        values: By the names of the template.

    Raises:
        KeyError: The template names a value that is not given.
    """
    return Text(template.format_map(values), template, values)


def fill(template: str, values: Mapping[str, object]) -> Text:
    """A row's template with the values that are known; ``?`` stands for each other one.

    Args:
        template: As :func:`say` takes it.
        values: By name; those that the template does not name are left out.

    Raises:
        ValueError: It is no template: a brace stands alone.
    """
    names = (name for _, name, _, _ in Formatter().parse(template) if name)
    return say(template, **{name: values.get(name, "?") for name in names})


def join_sentences(*sentences: str, by: str = " ") -> Text:
    """Sentences one behind the other, each with its own template; empty ones are left out.

    Args:
        sentences: In their order.
        by: What stands between them.
    """
    values = {f"sentence_{i}": said for i, said in enumerate(filter(None, sentences), start=1)}
    between = by.replace("{", "{{").replace("}", "}}")
    return say(between.join(f"{{{name}}}" for name in values), **values)
