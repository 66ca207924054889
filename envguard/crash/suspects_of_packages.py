"""What packages leave to suspect that go on without their compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.rules.model import Outcome
from envguard.crash.suspicion import Suspicion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

_NOT_LOADED = Outcome(
    "CRS160",
    "extension-not-loaded",
    "xformers did not load its compiled code",
    "It says that it did not, and not why.",
    "let it say why",
)


def suspect_extensions(case: Case) -> Iterator[Suspicion]:
    """Compiled code that did not load, where nothing says why."""
    if case.log.has("extension-warning"):
        yield Suspicion(
            _NOT_LOADED,
            "the log says so and names no versions",
            "whether it was built for this torch is not said",
            "let it print what it was built for, and the loader's own words",
            ("env", "XFORMERS_MORE_DETAILS=1", "python", "-m", "xformers.info"),
            ("extension-warning",),
        )
