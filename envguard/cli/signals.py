"""A polite end: signals that ask the process to end unwind it, so that nothing is left behind."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_NAMES = ("SIGTERM", "SIGHUP")


@contextlib.contextmanager
def ending_on_signals() -> Iterator[None]:
    """Within it, SIGTERM and SIGHUP raise SystemExit with status 128 + signal.

    Child processes end and temporary folders vanish on the way out, as they do on SIGINT. Outside
    the main thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    # A signal that is ignored (nohup) stays ignored.
    heeded = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in heeded:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
