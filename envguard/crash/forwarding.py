"""Signals that reach envguard are passed on to the child's process group."""

from __future__ import annotations

import contextlib
import os
import signal

# Passed on to the child's group; SIGTSTP keeps its default so that stopping works.
FORWARDED = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM")
    if hasattr(signal, name)
)


# Of these, the ones that ask to come to an end; the others are for the job alone.
ENDING = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
    if hasattr(signal, name)
)


def hold_signals() -> None:
    """The job has ended: keep what is meant for it from ending this process in its place."""
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)


class SignalForwarder:
    """Handlers that forward signals to the child's group and wake the loop."""

    def __init__(self) -> None:
        self.group = 0
        self.reader, self._writer = os.pipe()
        self._before: dict[int, object] = {}

    def __enter__(self) -> SignalForwarder:
        for number in (self.reader, self._writer):
            os.set_blocking(number, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup's choice is the child's too
                self._before[number] = signal.signal(number, self._forward)
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # as signal.signal gave it
        os.close(self.reader)
        os.close(self._writer)

    def _forward(self, number: int, _frame: object) -> None:
        if self.group:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, number)

    def drain(self) -> None:
        """Empty the pipe that woke the loop."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.reader, 4096):
                pass
