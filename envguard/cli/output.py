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
from envguard.redaction import clean_text, clean_value

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.cli.options import OutputOptions
    from envguard.facts.report import Report

_NARROWEST, _WIDEST, _NO_SCREEN = 40, 140, 100


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
    style = Style(
        is_coloured=options.output is None and wants_colour(no_color=options.no_color),
        is_quiet=options.quiet,
        is_verbose=options.verbose,
        width=screen_width(options.output),
    )
    write_text(render_report(report, options.format.value, style), options.output)
    return exit_code_of(report.verdict, fail_on=Status(options.fail_on.value))


def screen_width(output: Path | None) -> int:
    """Columns that text is made for: the terminal's, and a fixed number for files and pipes."""
    columns = shutil.get_terminal_size((_NO_SCREEN, 24)).columns if output is None else _NO_SCREEN
    return min(max(columns, _NARROWEST), _WIDEST)


def wants_colour(*, no_color: bool) -> bool:
    """Colour is for terminals, unless refused by option or by ``NO_COLOR``."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()  # None: it is closed
    return is_terminal and not (no_color or os.environ.get("NO_COLOR"))


def write_text(text: str, path: Path | None, *, is_clean: bool = False) -> None:
    """Write to stdout, or to a file in one step so that nothing half-written stays.

    A reader of stdout who has gone away (``| head``) is no error: the exit code is the answer.

    Args:
        text: Whole content.
        path: Of the file; None for stdout.
        is_clean: It holds no secret: a lock, whose addresses are fetched from. All other text
            passes the last net here.

    Raises:
        InputError: The file, or stdout, cannot be written.
    """
    text = text if is_clean else clean_text(text)
    whole = text if text.endswith("\n") else f"{text}\n"
    if path is None:
        _print(whole)
        return
    from envguard.files import write_atomically

    try:
        write_atomically(path, _encodable(whole, "utf-8"))
    except OSError as err:
        raise InputError(f"{path}: cannot be written: {_reason(err)}") from err


def talk(text: str, *, is_ended: bool = False) -> None:
    """Say something on standard error, which shows no secret either.

    Args:
        text: What is said.
        is_ended: It brings the end of its last line.
    """
    typer.echo(clean_text(text), err=True, nl=not is_ended)


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
