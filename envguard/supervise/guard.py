"""What envguard does beside somebody's job may fail; the job and its status may not notice."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from envguard.errors import EnvguardError
from envguard.supervise.job_process import ENDING, FORWARDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


P = ParamSpec("P")
T = TypeVar("T")

# Parts of envguard's own work, in the words that say that one of them is lost.
TABLES = "nothing could be searched or diagnosed, as the tables were not read"
PROBE = "machine and environment were not read"
RECORD = "the record stopped"
SAMPLES = "memory was not sampled to the end"
PHASES = "phases were not followed"
SEARCH = "the output was not searched to its end"
NEIGHBOURS = "earlier runs were not compared"
CHECKPOINT = "the checkpoint folder was not looked at"
DIAGNOSIS = "no diagnosis"
REPORT = "the report could not be shown"


class Guard:
    """Runs parts of envguard's own work; what fails is turned off, remembered, and said once."""

    def __init__(self) -> None:
        self.lost: dict[str, str] = {}
        self._is_ended = self._is_attempting = self._is_interrupted = False

    def attempt(
        self, part: str, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Do something of a part that has not failed yet.

        Args:
            part: One of the names above.
            action: What to do.
            args: For it.
            kwargs: Likewise.

        Returns:
            What the action gives; None when the part failed, now or before.
        """
        if part in self.lost:
            return None
        outer, self._is_attempting = self._is_attempting, True
        try:
            if self._is_interrupted:
                raise KeyboardInterrupt  # noqa: TRY301 - as if it came now
            return action(*args, **kwargs)
        except KeyboardInterrupt as err:
            if not self._is_ended:
                raise
            self.lost[part] = reason_of(err)
        except Exception as err:  # noqa: BLE001
            # Every error, of which kind ever, a defect of ours included: what is done here is a
            # by-product, and somebody's training run or its exit status hangs on going on without
            # it. Nothing is hidden: the first error of a part is kept, shown and recorded.
            self.lost[part] = reason_of(err)
        finally:
            self._is_attempting = outer
        return None

    @contextlib.contextmanager
    def keeping_status(self) -> Iterator[None]:
        """Within it the job has ended: a signal only cuts short what is done for its diagnosis."""
        if os.name == "nt":
            yield
            return
        heeded = [n for n in FORWARDED if signal.getsignal(n) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._interrupt) for number in heeded}
        self._is_ended, self._is_interrupted = True, False
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._is_ended = False

    def _interrupt(self, number: int, _frame: FrameType | None) -> None:
        if number not in ENDING:
            return
        if self._is_attempting:
            raise KeyboardInterrupt
        self._is_interrupted = True

    @property
    def line(self) -> str:
        """All that was lost, as one line; empty when nothing was."""
        return "; ".join(f"{part}: {why}" for part, why in self.lost.items())


def reason_of(err: BaseException) -> str:
    """An error in the words of one line."""
    if isinstance(err, EnvguardError):
        text = err.message
    elif isinstance(err, OSError) and err.strerror:
        text = err.strerror
    elif isinstance(err, KeyboardInterrupt):
        text = "interrupted"
    else:
        text = f"{type(err).__name__}: {err}" if str(err) else type(err).__name__
    return " ".join(text.split())[:300]


def write_to_stderr(text: str) -> None:
    """Say something where people look; nothing is said where nobody can listen.

    Straight to the file: text that a full or closed stderr does not take would otherwise wait in a
    buffer, and change the exit status when the interpreter flushes that at its end.
    """
    view = memoryview(text.encode("utf-8", "backslashreplace"))
    with contextlib.suppress(OSError):
        while view:
            try:
                view = view[os.write(2, view) :]
            except BlockingIOError:  # the job shares the file, and may have made it so
                time.sleep(0.01)
