"""The children that look at this machine, started before a command imports what judges them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.cli.options import MachineOptions
    from envguard.probe import PendingFacts


def describes_this_machine(source: str | None, options: MachineOptions) -> bool:
    """Whether the subject is this machine: no file and no option describes another."""
    others = (options.machine, options.gpu, options.compute_capability, options.platform)
    return source is None and not any(others)


@contextlib.contextmanager
def begin_probe(
    python: str | None, source: str | None, options: MachineOptions
) -> Iterator[PendingFacts | None]:
    """Begin to read this machine where it is the subject; yields None where it is not.

    Raises:
        InputError: ``--python`` names no interpreter that can be inspected.
    """
    if not describes_this_machine(source, options):
        yield None
        return
    from envguard.probe import PendingFacts, ProbeOptions

    with PendingFacts(python, ProbeOptions()) as pending:
        yield pending
