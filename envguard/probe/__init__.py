"""Reads this machine and an interpreter on it; every absence carries a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.facts.facts import Facts
from envguard.probe.interpreter import (
    collect_interpreter,
    is_running,
    locate_python,
    probe_running,
    start_interpreter,
)
from envguard.probe.machine import collect_machine, start_machine
from envguard.probe.options import ProbeOptions

if TYPE_CHECKING:
    from envguard.facts.gaps import Gap
    from envguard.facts.machine import Machine

__all__ = ["ProbeOptions", "probe_facts", "probe_machine"]


def probe_facts(python: str | None = None, *, options: ProbeOptions) -> Facts:
    """Read this machine and an interpreter on it.

    Everything that can hang or crash (NVML, libcuda, nvidia-smi, the interpreter, nvcc) is
    started first, each in its own child, and collected last; files are read meanwhile.

    Args:
        python: The interpreter: a path, a virtual environment's folder or a name on PATH;
            None is the one that envguard runs in.
        options: Where to look and for how long.

    Returns:
        Facts in a stable order. The gap of one source stays even where another source knew
        the fact: why NVML failed is evidence of its own.

    Raises:
        InputError: ``python`` does not exist, is no Python, or is too old to be inspected.
    """
    path = None if python is None else locate_python(python, options)
    started = start_machine(options)
    if path is None or is_running(path):
        environment, environment_gaps = probe_running()
        machine, gaps = collect_machine(started, options)
    else:
        child = start_interpreter(path, options)
        machine, gaps = collect_machine(started, options)
        environment, environment_gaps = collect_interpreter(child, python or path)
    found = tuple(dict.fromkeys((*gaps, *environment_gaps)))
    return Facts(machine, environment, found, options.now)


def probe_machine(options: ProbeOptions) -> tuple[Machine, tuple[Gap, ...]]:
    """Read this machine without an environment."""
    return collect_machine(start_machine(options), options)
