"""What is being done, on a terminal, when it takes longer than a second."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING

from envguard.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.status import Status
    from rich.text import Text

DELAY_S = 1.0


class _Waiting:
    """A line with a spinner that appears late or never."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = "working"
        self._status: Status | None = None
        self._is_over = False
        self._timer = threading.Timer(DELAY_S, self._show)
        self._timer.daemon = True

    def say(self, text: str) -> None:
        with self._lock:
            self._text = one_line(text)
            if self._status is not None:
                self._status.update(_plain(self._text))

    def start(self) -> None:
        self._timer.start()

    def stop(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_over = True
            if self._status is not None:
                self._status.stop()

    def _show(self) -> None:
        from rich.console import Console
        from rich.status import Status

        with self._lock:
            if not self._is_over:
                self._status = Status(_plain(self._text), console=Console(stderr=True))
                self._status.start()


def _plain(text: str) -> Text:
    """Text that rich takes for no markup, in which a link to anywhere could stand."""
    from rich.text import Text

    return Text(text)


@contextlib.contextmanager
def waiting(*, is_wanted: bool) -> Iterator[Callable[[str], None]]:
    """Show what is being done while a block runs.

    Args:
        is_wanted: Show it at all; it is never shown where standard error is no terminal.

    Yields:
        A function that takes what is being done now.
    """
    if not (is_wanted and sys.stderr.isatty()):
        yield lambda _: None
        return
    shown = _Waiting()
    shown.start()
    try:
        yield shown.say
    finally:
        shown.stop()
