"""Where answers, failures and progress go: stdout, a file, stderr; and the exit code."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import sys
import threading
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from envguard._version import __version__
from envguard.errors import EnvguardError, ExitCode, InputError
from envguard.printable import escaped_in_json, one_line, printable, printable_in_colour
from envguard.redaction import clean_text, clean_value
from envguard.render.page import Style
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.status import Status
    from rich.text import Text

    from envguard.cli.options import OutputOptions
    from envguard.facts.report import Report


_NARROWEST, _WIDEST, _NO_SCREEN = 40, 140, 100
_JSON_FORMATS = {"json", "sarif"}


def emit_report(report: Report, options: OutputOptions) -> int:
    """Render a report, write it, and return the exit code."""
    return emit_reports((report,), options)


def emit_reports(reports: Sequence[Report], options: OutputOptions) -> int:
    """Render the reports of several files as one, write it, and return the worst exit code."""
    from envguard.facts.findings import Status, worst_of
    from envguard.facts.report import exit_code_of
    from envguard.render import Style, render_reports

    if options.redact:
        from envguard.render.redact import redact

        reports = [redact(report) for report in reports]
    if options.nagios:
        from envguard.render.nagios import render_nagios

        line, code = render_nagios([clean_value(report) for report in reports])
        write_text(line, options.output)
        return code
    is_coloured = options.output is None and wants_colour(no_color=options.no_color)
    style = Style(
        is_coloured=is_coloured,
        is_quiet=options.quiet,
        is_verbose=options.verbose,
        width=screen_width(options.output),
    )
    text = render_reports(reports, options.format.value, style)
    is_json = options.format.value in _JSON_FORMATS
    write_text(text, options.output, clean=escaped_in_json if is_json else cleaner(style))
    worst = worst_of(report.verdict for report in reports)
    return exit_code_of(worst, fail_on=Status(options.fail_on.value))


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


# A value of any length may stand in a message; a reader needs its beginning, and how it ends.
_LONGEST, _HEAD, _TAIL = 600, 400, 120
# What monitoring plugins return for wrong arguments and for failures of their own.
_PLUGIN_UNKNOWN = 3


def report_error(arguments: Sequence[str], message: str, hint: str, code: ExitCode) -> int:
    """Say what went wrong.

    Args:
        arguments: Of the program, which say whether JSON is asked for.
        message: Lower case, names the value and the place.
        hint: What to do; empty for nothing.
        code: The exit code.

    Returns:
        The exit code.
    """
    is_redacted = "--redact" in _own(arguments)
    message, hint = (_shown(text, is_redacted=is_redacted) for text in (message, hint))
    if "--nagios" in _own(arguments):
        with contextlib.suppress(EnvguardError):
            write_text(f"ENVGUARD UNKNOWN - {' '.join(message.replace('|', '/').split())}", None)
        say(f"error: {message}")
        return _PLUGIN_UNKNOWN
    if wants_json(arguments):
        body: dict[str, Any] = {"message": message, "hint": hint, "exit_code": int(code)}
        document = {
            "schema_version": 1,
            "tool": {"name": "envguard", "version": __version__},
            "error": body,
        }
        with contextlib.suppress(EnvguardError):  # stdout takes nothing: the code and stderr do
            write_text(json.dumps(document, indent=2), None, clean=escaped_in_json)
    say(f"error: {message}" + (f"\n  hint: {hint}" if hint else ""))
    return code


def report_crash(arguments: Sequence[str], err: Exception) -> int:
    """Say that the program has a defect."""
    if os.environ.get("ENVGUARD_TRACEBACK"):
        import traceback

        tell(traceback.format_exc())
    message = f"envguard itself failed: {type(err).__name__}: {err}"
    hint = "this is a defect; set ENVGUARD_TRACEBACK=1 and report what it prints"
    return report_error(arguments, message, hint, ExitCode.ENVGUARD_FAILED)


def say(text: str) -> None:
    """Talk on stderr under the program's name; where nobody can listen, nothing is said."""
    tell(f"envguard: {text}\n")


def tell(text: str, *, clean: Callable[[str], str] = printable) -> None:
    """Write lines of the program's own to stderr; where nobody can listen, nothing is said.

    Args:
        text: Whole lines.
        clean: The last net, as for :func:`envguard.cli.output.write_text`.
    """
    with contextlib.suppress(OSError):
        typer.echo(clean(clean_text(text)), err=True, nl=False)


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether the options ask for JSON; what follows ``--`` is another program's."""
    own = _own(arguments)
    pairs = itertools.pairwise(own)
    return "--format=json" in own or ("--format", "json") in pairs


def _own(arguments: Sequence[str]) -> list[str]:
    return list(itertools.takewhile(lambda word: word != "--", arguments))


def _shown(text: str, *, is_redacted: bool) -> str:
    text = clean_text(text)
    if is_redacted:
        from envguard.render.redact import redact_text

        text = redact_text(text)
    return "\n".join(_clipped(line) for line in printable(text).splitlines())


def _clipped(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_HEAD]} ... {line[-_TAIL:]}"


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


DELAY_S = 1.0
# In a file, a log of CI for one, a word is worth its place only when somebody may be wondering.
FIRST_WORD_S, NEXT_WORD_S = 10.0, 60.0


class _Waiting:
    """A line with a spinner that appears late or never."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = "working"
        self._status: Status | None = None
        self._is_over = False
        self._timer = threading.Timer(DELAY_S, self._show)
        self._timer.daemon = True

    def say(self, text: str) -> None:
        with self._lock:
            self._text = one_line(text)
            if self._status is not None:
                self._status.update(_plain(self._text))

    def start(self) -> None:
        self._timer.start()

    def stop(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_over = True
            if self._status is not None:
                self._status.stop()

    def _show(self) -> None:
        from rich.console import Console
        from rich.status import Status

        with self._lock:
            if not self._is_over:
                self._status = Status(_plain(self._text), console=Console(stderr=True))
                self._status.start()


def _plain(text: str) -> Text:
    """Text that rich takes for no markup, in which a link to anywhere could stand."""
    from rich.text import Text

    return Text(text)


class _Words:
    """A line after some seconds and then each minute, where there is no terminal."""

    def __init__(self, first_s: float, next_s: float) -> None:
        self._text = "working"
        self._first_s, self._next_s = first_s, next_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._talk, daemon=True)

    def say(self, text: str) -> None:
        self._text = text

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()  # no word comes after the answer

    def _talk(self) -> None:
        pause_s = self._first_s
        while not self._is_over.wait(pause_s):
            say(f"still waiting: {self._text}")
            pause_s = self._next_s


@contextlib.contextmanager
def waiting(
    *, is_wanted: bool, first_s: float = FIRST_WORD_S, next_s: float = NEXT_WORD_S
) -> Iterator[Callable[[str], None]]:
    """Show what is being done while a block runs.

    Args:
        is_wanted: Show it at all.
        first_s: When the first word comes where standard error is no terminal.
        next_s: When each further one comes there.

    Yields:
        A function that takes what is being done now.
    """
    if not is_wanted or sys.stderr is None:
        yield lambda _: None
        return
    shown = _Waiting() if sys.stderr.isatty() else _Words(first_s, next_s)
    shown.start()
    try:
        yield shown.say
    finally:
        shown.stop()
