"""Reads this machine and an interpreter on it; every absence carries a reason.

Importing the package costs little: what reads and judges the answers is imported while the
children that were started first are at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.probe.options import ProbeOptions

if TYPE_CHECKING:
    from envguard.facts.facts import Facts
    from envguard.facts.gaps import Gap
    from envguard.facts.machine import Machine
    from envguard.probe.start import StartedProbe

__all__ = ["ProbeOptions", "probe_facts", "probe_machine", "start_probe"]


def start_probe(options: ProbeOptions) -> StartedProbe:
    """Start the children that ask the driver; a command calls it before its heavy imports.

    Args:
        options: The same as for :func:`probe_facts`, which takes the result.
    """
    from envguard.probe.start import start_machine

    return start_machine(options)


def probe_facts(
    python: str | None = None, *, options: ProbeOptions, started: StartedProbe | None = None
) -> Facts:
    """Read this machine and an interpreter on it.

    Everything that can hang or crash (NVML, libcuda, nvidia-smi, the interpreter, nvcc) is
    started first, each in its own child, and collected last; files are read meanwhile.

    Args:
        python: The interpreter: a path, a virtual environment's folder or a name on PATH;
            None is the one that envguard runs in.
        options: Where to look and for how long.
        started: From :func:`start_probe`, when that was called before.

    Returns:
        Facts in a stable order. The gap of one source stays even where another source knew
        the fact: why NVML failed is evidence of its own.

    Raises:
        InputError: ``python`` does not exist, is no Python, or is too old to be inspected.
    """
    started = started or start_probe(options)
    try:
        return _collect(python, options, started)
    finally:
        started.stop()


def _collect(python: str | None, options: ProbeOptions, started: StartedProbe) -> Facts:
    from envguard.facts.facts import Facts
    from envguard.probe.interpreter import start_environment
    from envguard.probe.machine import collect_machine

    pending = start_environment(python, options)
    machine, gaps = collect_machine(started, options)
    environment, environment_gaps = pending()
    found = tuple(dict.fromkeys((*gaps, *environment_gaps)))
    return Facts(machine, environment, found, options.now)


def probe_machine(
    options: ProbeOptions, *, started: StartedProbe | None = None
) -> tuple[Machine, tuple[Gap, ...]]:
    """Read this machine without an environment."""
    started = started or start_probe(options)
    from envguard.probe.machine import collect_machine

    return collect_machine(started, options)
