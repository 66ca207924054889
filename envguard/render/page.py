"""A page of prose for a person: a headline and labelled paragraphs, wrapped."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from envguard.render.style import Style

_LABEL = 8


@dataclass(frozen=True, slots=True)
class Section:
    """Paragraphs under a label.

    Args:
        label: One short word.
        paragraphs: Its texts; a section without any is left out.
        is_numbered: They are steps.
    """

    label: str
    paragraphs: tuple[str, ...]
    is_numbered: bool = False


def page_text(headline: str, sections: Sequence[Section], style: Style) -> str:
    """Render a page.

    Args:
        headline: First line.
        sections: In the order to show.
        style: How it looks.
    """
    lines = _wrap(headline, style, "", "")
    lines = [style.paint(line, "bold") for line in lines]
    for section in sections:
        if section.paragraphs:
            lines.append("")
            lines.extend(_section_lines(section, style))
    return "\n".join(lines) + "\n"


def _section_lines(section: Section, style: Style) -> Iterator[str]:
    for number, paragraph in enumerate(section.paragraphs):
        label = section.label if number == 0 else ""
        mark = f"{number + 1}. " if section.is_numbered else ""
        first = f"{label:<{_LABEL}}{mark}"
        first_line, *rest = _wrap(paragraph, style, first, " " * len(first))
        yield style.paint(first_line[:_LABEL], "cyan") + first_line[_LABEL:]
        yield from rest


def _wrap(text: str, style: Style, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        printable(text),
        style.width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
