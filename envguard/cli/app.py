"""The program's entry: picks the command, and turns every exception into an exit code."""

from __future__ import annotations

import gc
import importlib
import re
import sys
from typing import TYPE_CHECKING, Any

import typer

from envguard._version import __version__
from envguard.cli.defaults import Defaults, read_defaults
from envguard.cli.failure import report_crash, report_error, say
from envguard.cli.keys import keys_of_commands, long_options
from envguard.cli.quick import QuickCommand, QuickGroup
from envguard.errors import EnvguardError, ExitCode, MatrixError
from envguard.printable import clean_document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Command -> module that holds a function of the same name. Only the module of the command that
# is asked for is imported, because start-up time is part of what this program promises.
COMMANDS = {
    "probe": "envguard.cli.probe",
    "check": "envguard.cli.check",
    "lock": "envguard.cli.lock",
    "smoke": "envguard.cli.smoke",
    "inspect": "envguard.cli.inspect",
    "run": "envguard.cli.run",
    "diagnose": "envguard.cli.diagnose",
    "explain": "envguard.cli.explain",
    "matrix": "envguard.cli.matrix",
    "plan": "envguard.cli.plan",
}

# ClickException; typer vendors click in some releases, so it is reached through what typer exports.

_CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]
_INTERRUPTED = 130
# Allocations that start a search for garbage; Python's own 700 make dozens of them.
_GARBAGE_THRESHOLD = 50_000
_HELP_NAMES: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"envguard {__version__}")
        raise typer.Exit


def build_app(names: Sequence[str]) -> typer.Typer:
    """Put the named commands into a typer application."""
    app = typer.Typer(
        name="envguard",
        cls=QuickGroup,
        help="Will this PyTorch / CUDA environment run on this NVIDIA machine, and what would?",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings=_HELP_NAMES,
    )

    @app.callback()
    def envguard(
        version: bool = typer.Option(
            False, "--version", callback=_show_version, is_eager=True, help="Print the version."
        ),
    ) -> None:
        """Will this PyTorch / CUDA environment run on this NVIDIA machine, and what would?"""

    for name in names:
        module = importlib.import_module(COMMANDS[name])
        settings = _HELP_NAMES | getattr(module, "CONTEXT_SETTINGS", {})
        app.command(name, cls=QuickCommand, context_settings=settings)(getattr(module, name))
    return app


def _do_nothing() -> None:
    pass


def main(argv: Sequence[str] | None = None, *, begin: Callable[[], None] = _do_nothing) -> int:
    """Run the program.

    Args:
        argv: Arguments without the program's name; the process's own when None.
        begin: Called when the command is loaded and is about to start.

    Returns:
        The exit code; see :class:`envguard.errors.ExitCode`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if not arguments:
            _run(["--help"], begin)
            return ExitCode.USAGE
        return _run(arguments, begin)
    except EnvguardError as err:
        # a broken table is envguard's own failure, unless the user brought the tables
        is_users = isinstance(err, MatrixError) and any(a.startswith("--matrix") for a in arguments)
        code = ExitCode.USAGE if is_users else err.exit_code
        where = "the tables are those of the folder that --matrix names" if is_users else ""
        return report_error(arguments, err.message, err.hint or where, code)
    except _CLICK_ERROR as err:
        return report_error(arguments, *_usage_words(err), ExitCode.USAGE)
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted")
        return _INTERRUPTED
    except Exception as err:  # noqa: BLE001 - the last resort: a crash must not read as "does not fit"
        if not _came_of_interrupt(err):
            return report_crash(arguments, err)
        say("interrupted")
        return _INTERRUPTED


def _came_of_interrupt(err: BaseException) -> bool:
    """Whether it was an interrupt before it was wrapped, as Python 3.11 does in class bodies."""
    inner = err.__cause__ or err.__context__
    return isinstance(inner, KeyboardInterrupt) or (
        inner is not None and inner is not err and _came_of_interrupt(inner)
    )


def _run(arguments: list[str], begin: Callable[[], None]) -> int:
    asked = next((word for word in arguments if not word.startswith("-")), "")
    command = _built(_needed(asked, arguments))
    defaults = Defaults()
    if asked in COMMANDS:
        options = long_options(command.commands[asked])
        defaults = read_defaults(asked, options, _keys_of_all)
    values = dict(defaults.values)
    if _asks_help(arguments):  # which shows them, and goes through no net of ours
        values = clean_document(values)
    begin()
    try:
        status = command.main(
            args=arguments,
            prog_name="envguard",
            standalone_mode=False,
            default_map={asked: values} if values else None,
        )
    except EnvguardError as err:
        err.hint = err.hint or _where_stated(err.message, arguments, defaults)
        raise
    except SystemExit as end:
        # What typer makes of a closed pipe: no fault where it prints help. Elsewhere a module that
        # ends the process gives no verdict.
        if isinstance(end.__context__, OSError) and (
            asked not in COMMANDS or _asks_help(arguments)
        ):
            return ExitCode.FITS
        raise EnvguardError(f"the command was ended from within: {end!r}") from end
    if status == _INTERRUPTED and asked != "run":  # typer swallows the interrupt itself
        say("interrupted")
    return status if isinstance(status, int) else ExitCode.FITS


def _asks_help(arguments: Sequence[str]) -> bool:
    return not {"-h", "--help"}.isdisjoint(arguments)


def _needed(asked: str, arguments: Sequence[str]) -> list[str]:
    """The commands that an invocation takes: the one asked for, none for the version, else all."""
    if asked in COMMANDS:
        return [asked]
    return [] if list(arguments) == ["--version"] else list(COMMANDS)


def _built(names: Sequence[str]) -> Any:
    return typer.main.get_command(build_app(names))


def _keys_of_all() -> dict[str, frozenset[str]]:
    return keys_of_commands(_built(list(COMMANDS)).commands)


def _where_stated(message: str, arguments: Sequence[str], defaults: Defaults) -> str:
    """The file that an option comes from which a message names, and which was not typed."""
    named = re.match(r"--([a-z-]+)", message)
    is_typed = named is not None and any(word.split("=")[0] == named[0] for word in arguments)
    if named is None or is_typed or named[1] not in defaults.keys:
        return ""
    return f"{named[1]} stands in [tool.envguard] of {defaults.path}"


def _usage_words(err: BaseException) -> tuple[str, str]:
    message = err.format_message() if hasattr(err, "format_message") else str(err)
    message = message.replace("Value error, ", "")  # pydantic's prefix, which says nothing
    context = getattr(err, "ctx", None)
    hint = f"see `{context.command_path} --help`" if context is not None else ""
    return message.rstrip("."), hint


def run_program(begin: Callable[[], None]) -> int:
    """Run the program in a process that is its own; arguments and result are those of `main`."""
    # What is loaded and read stays until the end: searching it for garbage, time and again and
    # once more at exit, takes longer than some commands do.
    gc.set_threshold(_GARBAGE_THRESHOLD)
    status = main(begin=begin)
    gc.freeze()
    return status
