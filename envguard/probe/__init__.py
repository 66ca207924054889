"""Reads this machine and an interpreter on it; every absence carries a reason.

Importing the package costs little: what reads and judges the answers is imported while the
children that were started first are at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.probe.probe_options import ProbeOptions

if TYPE_CHECKING:
    from envguard.facts.facts import Facts
    from envguard.facts.gaps import Gap
    from envguard.facts.machine import Machine
    from envguard.probe.start import StartedProbe

__all__ = ["PendingFacts", "ProbeOptions", "probe_facts", "probe_machine", "start_probe"]


def start_probe(options: ProbeOptions) -> StartedProbe:
    """Start the children that ask the driver.

    Args:
        options: The same as for :func:`probe_machine`, which takes the result.
    """
    from envguard.probe.start import start_machine

    return start_machine(options)


class PendingFacts:
    """Facts that children are gathering; leaving the context ends those that were not heard.

    A command begins it before its heavy imports, because a child takes about as long as they do.

    Args:
        python: The interpreter: a path, a virtual environment's folder or a name on PATH;
            None is the one that envguard runs in.
        options: Where to look and for how long.

    Raises:
        InputError: ``python`` does not exist, is no Python, or is too old to be inspected.
    """

    def __init__(self, python: str | None, options: ProbeOptions) -> None:
        self._options = options
        self._started = start_probe(options)
        try:
            from envguard.probe.interpreter import start_environment

            self._environment = start_environment(python, options)
        except BaseException:
            self._started.stop()
            raise

    def __enter__(self) -> PendingFacts:
        return self

    def __exit__(self, *_: object) -> None:
        self._started.stop()

    def collect(self) -> Facts:
        """Wait for the answers.

        Returns:
            Facts in a stable order. The gap of one source stays even where another source knew
            the fact: why NVML failed is evidence of its own.
        """
        from envguard.facts.facts import Facts
        from envguard.probe.machine import collect_machine

        machine, gaps = collect_machine(self._started, self._options)
        environment, environment_gaps = self._environment()
        found = tuple(dict.fromkeys((*gaps, *environment_gaps)))
        return Facts(machine, environment, found, self._options.now)


def probe_facts(python: str | None = None, *, options: ProbeOptions) -> Facts:
    """Read this machine and an interpreter on it.

    Everything that can hang or crash (NVML, libcuda, nvidia-smi, the interpreter, nvcc) is
    started first, each in its own child, and collected last; files are read meanwhile.

    Args:
        python: As for :class:`PendingFacts`.
        options: Where to look and for how long.

    Raises:
        InputError: As for :class:`PendingFacts`.
    """
    with PendingFacts(python, options) as pending:
        return pending.collect()


def probe_machine(
    options: ProbeOptions, *, started: StartedProbe | None = None
) -> tuple[Machine, tuple[Gap, ...]]:
    """Read this machine without an environment."""
    started = started or start_probe(options)
    from envguard.probe.machine import collect_machine

    return collect_machine(started, options)
