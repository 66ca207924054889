"""Says that the program failed: a line on stderr, and a document where JSON is asked for."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from typing import TYPE_CHECKING, Any

import typer

from envguard._version import __version__
from envguard.cli.output import write_text
from envguard.errors import EnvguardError, ExitCode
from envguard.printable import escaped_in_json, printable
from envguard.redaction import clean_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
