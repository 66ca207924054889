"""Failures of a resolution that callers tell apart, and the name uv knows the request by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import NetworkError, NoBuildError
from envguard.redaction import clean_text

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

    from envguard.backend import Rejected

PROJECT = "envguard-lock"


class UnsolvableError(NoBuildError):
    """The requirements, with the torch build that was tried, have no solution.

    Args:
        reason: Why, in one line.
        bounds: What packages ask of torch, torchvision and torchaudio in that reason, as pairs
            of name and bounds.
        unknown: Packages that the index has no page for.
        lacking: Packages that it has in other versions only.
        refused: The address that answered 403 to one of the questions, or empty.
    """

    def __init__(
        self,
        reason: str,
        bounds: tuple[tuple[str, SpecifierSet], ...] = (),
        unknown: frozenset[str] = frozenset(),
        lacking: frozenset[str] = frozenset(),
        refused: str = "",
    ) -> None:
        super().__init__(f"the request cannot be resolved: {reason}")
        self.reason = reason
        self.bounds = bounds
        self.unknown = unknown
        self.lacking = lacking
        self.refused = refused


class NoCandidateError(NoBuildError):
    """No torch build can be locked.

    Args:
        failed: The builds, each with the reasons against it.
    """

    def __init__(self, message: str, hint: str = "", failed: tuple[Rejected, ...] = ()) -> None:
        super().__init__(message, hint)
        self.failed = failed


def refusal_error(url: str, status: str = "403 Forbidden") -> NetworkError:
    """The error for an index that refuses access.

    Args:
        url: Its address.
        status: What it answers.
    """
    return NetworkError(
        f"index {clean_text(url)} refuses access: {status}",
        hint="check its address, and the credentials in .netrc, the keyring or the index URL",
    )
