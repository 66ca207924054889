"""What commands that answer from the tables share: options, width of the screen, JSON envelope."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envguard._version import __version__
from envguard.cli.output import cleaner, screen_width, wants_colour, write_text
from envguard.printable import escaped_in_json
from envguard.render.style import Style

if TYPE_CHECKING:
    from collections.abc import Callable

_OUTPUT = "Output"


class PageFormat(Enum):
    """Formats of commands that answer from the tables."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Where and how a page is written."""

    format: Annotated[
        PageFormat, typer.Option("--format", help="Text or JSON.", rich_help_panel=_OUTPUT)
    ] = PageFormat.TEXT
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write to a file.", rich_help_panel=_OUTPUT),
    ] = None
    matrix: Annotated[
        Path | None,
        typer.Option("--matrix", help="Folder of tables to use instead.", rich_help_panel=_OUTPUT),
    ] = None
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Sources too.", rich_help_panel=_OUTPUT)
    ] = False
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Without remarks.", rich_help_panel=_OUTPUT)
    ] = False
    no_color: Annotated[
        bool, typer.Option("--no-color", help="No colour.", rich_help_panel=_OUTPUT)
    ] = False

    @property
    def style(self) -> Style:
        """How text looks where it goes to."""
        is_screen = self.output is None
        return Style(
            is_coloured=is_screen and wants_colour(no_color=self.no_color),
            is_quiet=self.quiet,
            is_verbose=self.verbose,
            width=screen_width(self.output),
        )


def write_page(
    options: PageOptions,
    version: str,
    *,
    command: str,
    body: dict[str, Any],
    text: Callable[[Style], str],
) -> None:
    """Write an answer as one JSON document or as text.

    Args:
        options: Where and how.
        version: Data version of the tables.
        command: Name of the command, in the document.
        body: What the document holds beside the envelope.
        text: Makes the text; only called where text is asked for.

    Raises:
        InputError: The file cannot be written.
    """
    match options.format:
        case PageFormat.TEXT:
            write_text(text(options.style), options.output, clean=cleaner(options.style))
        case PageFormat.JSON:
            import json

            document = {
                "schema_version": 1,
                "tool": {"name": "envguard", "version": __version__},
                "matrix": {"version": version},
                "command": command,
                **body,
            }
            whole = json.dumps(document, indent=2, ensure_ascii=False)
            write_text(whole, options.output, clean=escaped_in_json)
