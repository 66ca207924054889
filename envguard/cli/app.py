"""The program's entry: picks the command, and turns every exception into an exit code."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import typer

from envguard import __version__
from envguard.cli.quick import QuickCommand, QuickGroup
from envguard.errors import EnvguardError, ExitCode, MatrixError

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        settings = getattr(module, "CONTEXT_SETTINGS", None)
        app.command(name, cls=QuickCommand, context_settings=settings)(getattr(module, name))
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program.

    Args:
        argv: Arguments without the program's name; the process's own when None.

    Returns:
        The exit code; see :class:`envguard.errors.ExitCode`.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if not arguments:
            _run(["--help"])
            return ExitCode.USAGE
        return _run(arguments)
    except EnvguardError as err:
        # a broken table is envguard's own failure, unless the user brought the tables
        is_users = isinstance(err, MatrixError) and any(a.startswith("--matrix") for a in arguments)
        code = ExitCode.USAGE if is_users else err.exit_code
        return _report_error(arguments, err.message, err.hint, code)
    except _CLICK_ERROR as err:
        return _report_error(arguments, *_usage_words(err), ExitCode.USAGE)
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted")
        return _INTERRUPTED
    except BrokenPipeError:
        _close_stdout()
        return ExitCode.FITS
    except Exception as err:  # noqa: BLE001 - the last resort: a crash must not read as "does not fit"
        return _report_crash(arguments, err)


def _run(arguments: list[str]) -> int:
    from envguard.cli.defaults import read_defaults

    asked = next((word for word in arguments if not word.startswith("-")), "")
    names = [asked] if asked in COMMANDS else list(COMMANDS)
    command = typer.main.get_command(build_app(names))
    defaults = read_defaults(asked) if asked in COMMANDS else {}
    status = command.main(
        args=arguments,
        prog_name="envguard",
        standalone_mode=False,
        default_map={asked: defaults} if defaults else None,
    )
    return status if isinstance(status, int) else ExitCode.FITS


def _usage_words(err: BaseException) -> tuple[str, str]:
    message = err.format_message() if hasattr(err, "format_message") else str(err)
    message = message.replace("Value error, ", "")  # pydantic's prefix, which says nothing
    context = getattr(err, "ctx", None)
    hint = f"see `{context.command_path} --help`" if context is not None else ""
    return message.rstrip("."), hint


def _report_error(arguments: list[str], message: str, hint: str, code: ExitCode) -> int:
    if _wants_json(arguments):
        body: dict[str, Any] = {"message": message, "hint": hint, "exit_code": int(code)}
        document = {
            "schema_version": 1,
            "tool": {"name": "envguard", "version": __version__},
            "error": body,
        }
        typer.echo(json.dumps(document, indent=2))
    _say(f"error: {message}" + (f"\n  hint: {hint}" if hint else ""))
    return code


def _report_crash(arguments: list[str], err: Exception) -> int:
    if os.environ.get("ENVGUARD_TRACEBACK"):
        import traceback

        traceback.print_exc()
    message = f"envguard itself failed: {type(err).__name__}: {err}"
    hint = "this is a defect; set ENVGUARD_TRACEBACK=1 and report what it prints"
    return _report_error(arguments, message, hint, ExitCode.ENVGUARD_FAILED)


def _wants_json(arguments: list[str]) -> bool:
    pairs = itertools.pairwise(arguments)
    return "--format=json" in arguments or ("--format", "json") in pairs


def _say(text: str) -> None:
    typer.echo(f"envguard: {text}", err=True)


def _close_stdout() -> None:
    """Keep the interpreter from failing once more when it flushes a closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def entry() -> None:
    """The console script."""
    sys.exit(main())
