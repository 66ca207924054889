"""The errors that envguard raises on purpose, and the exit codes they become."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process exit status means; the same for every command."""

    FITS = 0
    DOES_NOT_FIT = 1
    USAGE = 2
    COULD_NOT_TELL = 3
    ENVGUARD_FAILED = 4


class EnvguardError(Exception):
    """Base of every error that is raised on purpose.

    Args:
        message: Lower case, names the value and where it stands.
        hint: What to do about it, or an empty string.
    """

    exit_code = ExitCode.ENVGUARD_FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(EnvguardError):
    """Something the user gave (an option, a file, a document) cannot be used."""

    exit_code = ExitCode.USAGE


class DocumentError(InputError):
    """A document does not have the shape its schema version promises."""


class MatrixError(EnvguardError):
    """A table of the compatibility matrix breaks an invariant, or cannot be read."""


class NetworkError(EnvguardError):
    """An index could not be reached or answered with something else than an index page."""

    exit_code = ExitCode.COULD_NOT_TELL


class ToolError(EnvguardError):
    """A program that envguard runs (uv, nvcc) is missing, too old or failed."""

    exit_code = ExitCode.COULD_NOT_TELL


class NoBuildError(EnvguardError):
    """No torch build serves the request on the machines named."""

    exit_code = ExitCode.DOES_NOT_FIT
