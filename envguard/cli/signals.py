"""A polite end: signals that ask the process to end unwind it, so that nothing is left behind."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_NAMES = ("SIGTERM", "SIGHUP")


class _EndError(BaseException):
    """Raised where the process happens to be; no library takes it for a failure of its own."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def ending_on_signals() -> Iterator[None]:
    """Within it, SIGTERM and SIGHUP end the command with status 128 + signal.

    Child processes end and temporary folders vanish on the way out, as they do on SIGINT. Outside
    the main thread nothing changes.

    Raises:
        typer.Exit: A signal came.
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
    except _EndError as end:
        raise typer.Exit(128 + end.number) from None
    finally:
        for number in heeded:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _frame: FrameType | None) -> None:
    raise _EndError(number)
