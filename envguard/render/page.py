"""A page of prose for a person, and how text looks: headline, labelled paragraphs, colour."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from envguard.printable import printable
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_CODES = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}


@dataclass(frozen=True, slots=True)
class Style:
    """Choices of the reader.

    Args:
        is_coloured: Write ANSI colours.
        is_quiet: Only the verdict.
        is_verbose: Evidence, sources and gaps too.
        width: Columns.
    """

    is_coloured: bool = False
    is_quiet: bool = False
    is_verbose: bool = False
    width: int = 100

    def paint(self, text: str, *names: str) -> str:
        """Printable text in colours, or without; what is painted already cannot be once more."""
        text = printable(text)
        if not self.is_coloured:
            return text
        codes = ";".join(_CODES[name] for name in names)
        return f"\x1b[{codes}m{text}\x1b[0m"


_LABEL = 8


@dataclass(frozen=True, slots=True)
class PageSection:
    """Paragraphs under a label.

    Args:
        label: One short word.
        paragraphs: Its texts; a section without any is left out.
        is_numbered: They are steps.
    """

    label: str
    paragraphs: tuple[str, ...]
    is_numbered: bool = False


def page_text(headline: str, sections: Sequence[PageSection], style: Style) -> str:
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


def _section_lines(section: PageSection, style: Style) -> Iterator[str]:
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
