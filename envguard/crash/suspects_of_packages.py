"""What packages leave to suspect that go on without their compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.suspicion import Suspect, suspect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case


def suspect_extensions(case: Case) -> Iterator[Suspect]:
    """Compiled code that did not load, where nothing says why."""
    if case.log.has("extension-warning"):
        yield suspect("extension-not-loaded")
