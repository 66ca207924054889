"""Write the answer to stdout or a file, and turn the verdict into the exit code."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from typing import TYPE_CHECKING

import typer

from envguard.errors import InputError
from envguard.printable import escaped_in_json, printable, printable_in_colour
from envguard.redaction import clean_text, clean_value

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from envguard.cli.options import OutputOptions
    from envguard.facts.report import Report
    from envguard.render.style import Style

_NARROWEST, _WIDEST, _NO_SCREEN = 40, 140, 100
_JSON_FORMATS = {"json", "sarif"}


def emit_report(report: Report, options: OutputOptions) -> int:
    """Render a report, write it, and return the exit code."""
    from envguard.facts.findings import Status
    from envguard.facts.report import exit_code_of
    from envguard.render import Style, render_report

    if options.redact:
        from envguard.render.redact import redact

        report = redact(report)
    if options.nagios:
        from envguard.render.nagios import render_nagios

        line, code = render_nagios(clean_value(report))
        write_text(line, options.output)
        return code
    is_coloured = options.output is None and wants_colour(no_color=options.no_color)
    style = Style(
        is_coloured=is_coloured,
        is_quiet=options.quiet,
        is_verbose=options.verbose,
        width=screen_width(options.output),
    )
    text = render_report(report, options.format.value, style)
    is_json = options.format.value in _JSON_FORMATS
    write_text(text, options.output, clean=escaped_in_json if is_json else cleaner(style))
    return exit_code_of(report.verdict, fail_on=Status(options.fail_on.value))


def cleaner(style: Style) -> Callable[[str], str]:
    """What a text in a style passes before it is written: its own colours stay, if it has any."""
    return printable_in_colour if style.is_coloured else printable


def screen_width(output: Path | None) -> int:
    """Columns that text is made for: the terminal's, and a fixed number for files and pipes."""
    columns = shutil.get_terminal_size((_NO_SCREEN, 24)).columns if output is None else _NO_SCREEN
    return min(max(columns, _NARROWEST), _WIDEST)


def wants_colour(*, no_color: bool) -> bool:
    """Colour is for terminals, unless refused by option or by ``NO_COLOR``."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()  # None: it is closed
    return is_terminal and not (no_color or os.environ.get("NO_COLOR"))


def write_text(
    text: str,
    path: Path | None,
    *,
    clean: Callable[[str], str] = printable,
    is_free_of_secrets: bool = False,
) -> None:
    """Write to stdout, or to a file in one step so that nothing half-written stays.

    A reader of stdout who has gone away (``| head``) is no error: the exit code is the answer.

    Args:
        text: What is written; a line end is added where it lacks one.
        path: The file; None for stdout.
        clean: The last net: no escape of a terminal, whoever forgot it, gets through.
        is_free_of_secrets: A lock, whose addresses are fetched from. All other text passes a net
            for secrets as well.

    Raises:
        InputError: The file, or stdout, cannot be written.
    """
    text = text if is_free_of_secrets else clean_text(text)
    whole = clean(text if text.endswith("\n") else f"{text}\n")
    if path is None:
        _print(whole)
        return
    from envguard.files import write_atomically

    try:
        write_atomically(path, _encodable(whole, "utf-8"))
    except OSError as err:
        raise InputError(f"{path}: cannot be written: {_reason(err)}") from err


def drop_stdout() -> None:
    """Keep the interpreter from failing once more when it flushes a lost stdout at exit."""
    with contextlib.suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print(text: str) -> None:
    if sys.stdout is None:
        return
    try:
        typer.echo(_encodable(text, sys.stdout.encoding, sys.stdout.errors), nl=False)
    except BrokenPipeError:
        drop_stdout()
    except OSError as err:
        drop_stdout()
        raise InputError(f"standard output: cannot be written: {_reason(err)}") from err


def _reason(err: OSError) -> str:
    return (err.strerror or str(err)).lower()


def _encodable(text: str, encoding: str | None, errors: str | None = None) -> str:
    """The text with what an encoding lacks escaped as JSON does it, so that JSON stays JSON."""
    if _can_encode(text, encoding, errors):
        return text
    return "".join(
        character if _can_encode(character, encoding, errors) else json.dumps(character)[1:-1]
        for character in text
    )


def _can_encode(text: str, encoding: str | None, errors: str | None) -> bool:
    try:
        text.encode(encoding or "utf-8", errors or "strict")
    except UnicodeEncodeError:
        return False
    return True
