"""``envguard inspect``: what compiled files hold."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path  # noqa: TC003 - typer reads annotations at run time
from typing import Annotated

import typer

from envguard.binary.inspect import Inspection, inspect_subjects
from envguard.cli.out import cleaner, wants_colour, write_text
from envguard.errors import ExitCode
from envguard.facts.binary import inspect_document
from envguard.printable import escaped_in_json
from envguard.render.compiled_files import compiled_files_text
from envguard.render.page import Style


class InspectFormat(Enum):
    """Formats of ``inspect``."""

    TEXT = "text"
    JSON = "json"


def inspect(
    paths: Annotated[
        list[str], typer.Argument(help="Shared objects, folders, wheels, or https:// wheels.")
    ],
    output_format: Annotated[InspectFormat, typer.Option("--format", help="Text or JSON.")] = (
        InspectFormat.TEXT
    ),
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Every library.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="One line a file.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Use no network.")] = False,
) -> int:
    """Show the GPU code, libraries, C++ ABI and CUDA release of compiled files."""
    found = inspect_subjects(paths, offline=offline)
    coloured = output is None and wants_colour(no_color=no_color)
    style = Style(is_coloured=coloured, is_quiet=quiet, is_verbose=verbose)
    clean = escaped_in_json if output_format is InspectFormat.JSON else cleaner(style)
    write_text(_rendered(found, output_format, style), output, clean=clean)
    return ExitCode.FITS if found.is_complete else ExitCode.COULD_NOT_TELL


def _rendered(found: Inspection, output_format: InspectFormat, style: Style) -> str:
    match output_format:
        case InspectFormat.JSON:
            return json.dumps(inspect_document(found.files), indent=2, ensure_ascii=False)
        case InspectFormat.TEXT:
            return compiled_files_text(found.files, found.notes, style)
