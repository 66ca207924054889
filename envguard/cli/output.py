"""Write the answer to stdout or a file, and turn the verdict into the exit code."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import typer

from envguard.errors import InputError
from envguard.facts.findings import Status
from envguard.facts.report import exit_code_of
from envguard.render import Style, render_report

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.cli.options import OutputOptions
    from envguard.facts.report import Report


def emit_report(report: Report, options: OutputOptions) -> int:
    """Render a report, write it, and return the exit code."""
    if options.redact:
        from envguard.render.redact import redact

        report = redact(report)
    if options.nagios:
        from envguard.render.nagios import render_nagios

        line, code = render_nagios(report)
        write_text(line, options.output)
        return code
    style = Style(
        is_coloured=options.output is None and wants_colour(no_color=options.no_color),
        is_quiet=options.quiet,
        is_verbose=options.verbose,
    )
    write_text(render_report(report, options.format.value, style), options.output)
    return exit_code_of(report.verdict, fail_on=Status(options.fail_on.value))


def wants_colour(*, no_color: bool) -> bool:
    """Colour is for terminals, unless refused by option or by ``NO_COLOR``."""
    return not (no_color or os.environ.get("NO_COLOR")) and sys.stdout.isatty()


def write_text(text: str, path: Path | None) -> None:
    """Write to stdout, or to a file in one step so that nothing half-written stays.

    Raises:
        InputError: The file cannot be written.
    """
    if path is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    from envguard.files import write_atomically

    try:
        write_atomically(path, text if text.endswith("\n") else f"{text}\n")
    except OSError as err:
        raise InputError(f"{path}: cannot be written: {err.strerror or err}") from err
