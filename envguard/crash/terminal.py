"""Job control: which process group the terminal belongs to while the child runs."""

from __future__ import annotations

import contextlib
import os
import signal


class Terminal:
    """The controlling terminal, lent to the child's process group while it runs.

    The child has a process group of its own in the same session. While envguard is in the
    foreground that group is made the foreground group, so that Ctrl-C, Ctrl-Z and the window's
    size reach the child from the kernel exactly as without envguard.
    """

    def __init__(self) -> None:
        self._handle = self._find()
        self._is_lent = False

    @staticmethod
    def _find() -> int | None:
        for number in (0, 2, 1):
            if os.isatty(number):
                with contextlib.suppress(OSError):
                    os.tcgetpgrp(number)
                    return number
        return None

    def lend(self, group: int) -> None:
        """Make the child's group the foreground one, if ours is."""
        if self._handle is None or not self._is_ours():
            return
        self._give(group)
        self._is_lent = True
        # It may have been stopped for touching the terminal before it had it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGCONT)

    def take_back(self) -> None:
        """Make our own group the foreground one again, if the terminal was lent."""
        if self._is_lent:
            self._give(os.getpgrp())
            self._is_lent = False

    def _is_ours(self) -> bool:
        try:
            return self._handle is not None and os.tcgetpgrp(self._handle) == os.getpgrp()
        except OSError:
            return False

    def _give(self, group: int) -> None:
        # A background process that does this is stopped, unless it ignores the signal.
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            with contextlib.suppress(OSError):
                os.tcsetpgrp(self._handle if self._handle is not None else 0, group)
        finally:
            signal.signal(signal.SIGTTOU, before)

    def stop_with(self, group: int) -> None:
        """The child was stopped: stop as well, so that the shell sees it; go on when told to."""
        if self._handle is None:
            return
        self.take_back()
        os.killpg(os.getpgrp(), signal.SIGTSTP)
        # Here the shell has continued us.
        self.lend(group)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGCONT)
