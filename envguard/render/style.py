"""How text looks: colour and how much is said."""

from __future__ import annotations

from dataclasses import dataclass

from envguard.printable import printable

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
