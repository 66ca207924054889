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


def is_machine_stated(options: MachineOptions) -> bool:
    """Whether any option states a fact about this machine."""
    own = (
        options.driver,
        options.cuda_driver,
        options.nvcc,
        options.glibc,
        options.python_version,
        options.ram,
    )
    return any(value is not None for value in own)


@contextlib.contextmanager
def begin_probe(
    python: str | None, source: str | None, options: MachineOptions
) -> Iterator[PendingFacts | None]:
    """Begin to read this machine where it is the subject; yields None where it is not.

    Raises:
        InputError: ``--python`` names no interpreter that can be inspected, or an option about
            this machine cannot be read.
    """
    if not describes_this_machine(source, options):
        yield None
        return
    if is_machine_stated(options):
        from envguard.cli.subject import read_stated

        read_stated(options)  # what cannot be read starts nothing
    from envguard.probe import PendingFacts, ProbeOptions

    with PendingFacts(python, ProbeOptions()) as pending:
        yield pending
