"""The program's entry: picks the command, and turns every exception into an exit code."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import re
import signal
import sys
import threading
from enum import Enum
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from envguard._version import __version__
from envguard.cli.defaults import Defaults, Option, read_defaults
from envguard.cli.out import report_crash, report_error, say
from envguard.errors import EnvguardError, ExitCode, MatrixError
from envguard.printable import clean_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType


_PLAIN = (bool, int, float)


def long_options(command: Any) -> tuple[Option, ...]:
    """The long options of a built command; arguments and ``--help`` are none.

    Args:
        command: What typer made of a function.
    """
    return tuple(option for param in command.params for option in _options_of(param))


def keys_of_commands(commands: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """The keys that each built command takes, by its name."""
    return {
        name: frozenset(option.key for option in long_options(command))
        for name, command in commands.items()
    }


def _options_of(param: Any) -> Iterator[Option]:
    descriptor = getattr(param, "type_descriptor", None)
    if param.param_type_name != "option" or descriptor is None or param.name == "help":
        return
    annotation = descriptor.annotation
    kind = annotation if annotation in _PLAIN else str
    choices: tuple[str, ...] = ()
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        choices = tuple(str(member.value) for member in annotation)
    for names, is_negative in ((param.opts, False), (param.secondary_opts, True)):
        for name in names:
            if name.startswith("--"):
                key = name.removeprefix("--")
                yield Option(key, param.name, kind, bool(param.multiple), choices, is_negative)


def _process_value(param: Any, convert: Callable[..., Any], ctx: Any, value: Any) -> Any:
    """Convert only what was typed and is not what it has to be already."""
    idle = value is None or value is param.default or _is_ready(param, value)
    if not idle or (param.required and value is None):
        return convert(ctx, value)
    if value is None and (param.nargs == -1 or getattr(param, "multiple", False)):
        value = ()
    return value if param.callback is None else param.callback(ctx, param, value)


def _is_ready(param: Any, value: Any) -> bool:
    descriptor = getattr(param, "type_descriptor", None)
    annotation = getattr(descriptor, "annotation", None)
    if isinstance(value, (list, tuple)):
        is_list = annotation in (list[str], list[str] | None)
        return is_list and all(isinstance(item, str) for item in value)
    if isinstance(value, bool):
        return annotation is bool
    return isinstance(value, str) and annotation in (str, str | None)


def _is_flag(param: Any) -> bool:
    descriptor = getattr(param, "type_descriptor", None)
    return getattr(descriptor, "annotation", None) is bool


class _QuickParams:
    """A command whose parameters, ``--help`` included, are quick."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # the mixed-in class's
        for param in params:
            if "process_value" not in vars(param):
                quick = functools.partial(_process_value, param, param.process_value)
                param.process_value = quick
            if _is_flag(param) and param.metavar is None:
                param.metavar = ""  # newer typers write <bool> behind a flag that takes no value
        return params


class QuickCommand(_QuickParams, TyperCommand):
    """A command."""


class QuickGroup(_QuickParams, TyperGroup):
    """A group of commands."""


_NAMES = ("SIGTERM", "SIGHUP")


class _EndError(BaseException):
    """Raised where the process happens to be; no library takes it for a failure of its own."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def ending_on_signals() -> Iterator[None]:
    """Within it, SIGTERM and SIGHUP end the command with status 128 + signal.

    Child processes end and temporary folders vanish on the way out, as they do on SIGINT. Outside
    the main thread nothing changes.

    Raises:
        typer.Exit: A signal came.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    # A signal that is ignored (nohup) stays ignored.
    heeded = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in heeded:
        signal.signal(number, _end)
    try:
        yield
    except _EndError as end:
        raise typer.Exit(128 + end.number) from None
    finally:
        for number in heeded:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _frame: FrameType | None) -> None:
    raise _EndError(number)


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
    status = main(begin=begin)
    gc.freeze()  # what is left is not searched for garbage once more at exit
    return status
