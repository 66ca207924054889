"""Exit statuses in one form: -9, 9 from a kill, 137 and 247 are all SIGKILL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envguard.matrix.signals_table import SignalsTable

SIGKILL, SIGSEGV, SIGBUS, SIGABRT, SIGTERM = 9, 11, 7, 6, 15
SIGHUP, SIGINT, SIGILL, SIGFPE = 1, 2, 4, 8

# NTSTATUS values that a crashing Windows process exits with, and the signal they stand for.
_WINDOWS = {
    0xC0000005: (SIGSEGV, "STATUS_ACCESS_VIOLATION"),
    0xC0000006: (SIGBUS, "STATUS_IN_PAGE_ERROR"),
    0xC000001D: (SIGILL, "STATUS_ILLEGAL_INSTRUCTION"),
    0xC0000094: (SIGFPE, "STATUS_INTEGER_DIVIDE_BY_ZERO"),
    0xC00000FD: (SIGSEGV, "STATUS_STACK_OVERFLOW"),
    0xC0000374: (SIGABRT, "STATUS_HEAP_CORRUPTION"),
    0xC0000409: (SIGABRT, "STATUS_STACK_BUFFER_OVERRUN"),
    0xC000013A: (SIGINT, "STATUS_CONTROL_C_EXIT"),
}


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended.

    Args:
        stated: The status as it was given.
        signal: Number of the signal that it died of; None for a plain exit.
        name: ``SIGKILL``, or the Windows status; empty for a plain exit.
        means: What the table says about it.
    """

    stated: int
    signal: int | None = None
    name: str = ""
    means: str = ""

    @property
    def is_success(self) -> bool:
        """Exit status 0."""
        return self.signal is None and self.stated == 0

    @property
    def text(self) -> str:
        """For a sentence: ``SIGKILL (137)``, ``exit status 3``."""
        return f"{self.name} ({self.stated})" if self.name else f"exit status {self.stated}"


def normalise_exit(code: int, table: SignalsTable) -> Ending:
    """Bring an exit status to one form.

    Args:
        code: As a shell (137), Python (-9), DeepSpeed's launcher (247), Kubernetes (137) or
            Windows (0xC0000005, signed or not) states it.
        table: The signals.

    Returns:
        A signal where the status stands for one; 255 stays a plain status, because ``exit(-1)``
        and a lost ssh give it far more often than SIGHUP does.
    """
    unsigned = code & 0xFFFFFFFF
    if unsigned in _WINDOWS:
        number, name = _WINDOWS[unsigned]
        return Ending(code, number, name, "a crash of native code on Windows")
    signal = _signal_of(code, table)
    row = table.signal(signal) if signal is not None else None
    if row is not None:
        return Ending(code, row.number, row.name, row.means)
    plain = table.status(code)
    return Ending(code, means=plain.means if plain else "")


def _signal_of(code: int, table: SignalsTable) -> int | None:
    if code < 0:
        return -code
    if code > 128 and table.signal(code - 128) is not None:
        return code - 128
    for row in table.signals:
        if code == row.unsigned and code != 255:
            return row.number
    return None


def ending_of_signal(number: int, table: SignalsTable) -> Ending:
    """The ending of a process that died of a signal."""
    return normalise_exit(-number, table)
