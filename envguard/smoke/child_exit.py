"""Names of the ways in which a process can end."""

from __future__ import annotations

import signal

from envguard.facts.sentences import say
from envguard.values import dataclass

# NTSTATUS values that a crashing Windows process exits with.
_NTSTATUS = {
    0x40000015: "STATUS_FATAL_APP_EXIT",
    0x80000003: "STATUS_BREAKPOINT",
    0xC0000005: "STATUS_ACCESS_VIOLATION",
    0xC0000006: "STATUS_IN_PAGE_ERROR",
    0xC0000017: "STATUS_NO_MEMORY",
    0xC000001D: "STATUS_ILLEGAL_INSTRUCTION",
    0xC0000094: "STATUS_INTEGER_DIVIDE_BY_ZERO",
    0xC00000FD: "STATUS_STACK_OVERFLOW",
    0xC0000135: "STATUS_DLL_NOT_FOUND",
    0xC0000139: "STATUS_ENTRYPOINT_NOT_FOUND",
    0xC000013A: "STATUS_CONTROL_C_EXIT",
    0xC0000142: "STATUS_DLL_INIT_FAILED",
    0xC0000374: "STATUS_HEAP_CORRUPTION",
    0xC0000409: "STATUS_STACK_BUFFER_OVERRUN",
    0xE06D7363: "an uncaught C++ exception",
}
# Signals that a program dies of; a shell or launcher in between reports 128 + n for them.
_DEADLY = {
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}


@dataclass(frozen=True, slots=True)
class ChildExit:
    """How a process ended.

    Args:
        returncode: As subprocess gives it; None when it could not be ended.
        signal: Name of the signal or Windows status that it died of; empty for an exit.
    """

    returncode: int | None
    signal: str = ""

    @property
    def text(self) -> str:
        """For a sentence: ``died of SIGSEGV``, ``exited with status 3``."""
        if self.returncode is None:
            return "cannot be ended, it hangs inside the kernel"
        if not self.signal:
            return say("exited with status {status}", status=self.returncode)
        shown = self.returncode if self.returncode < 0x10000 else f"0x{self.returncode:08X}"
        return say("died of {signal} (status {status})", signal=self.signal, status=shown)


def name_exit(returncode: int | None) -> ChildExit:
    """Name an exit status: a signal, a shell's 128 + n, a Windows status, or a plain exit."""
    if returncode is None:
        return ChildExit(None)
    unsigned = returncode & 0xFFFFFFFF
    if unsigned in _NTSTATUS:
        return ChildExit(unsigned, _NTSTATUS[unsigned])
    if returncode < 0:
        return ChildExit(returncode, _signal_name(-returncode))
    return ChildExit(returncode, _DEADLY.get(returncode - 128, ""))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
