"""What is being done when it takes long: a line on a terminal, now and then a word elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING

from envguard.cli.failure import say
from envguard.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.status import Status
    from rich.text import Text

DELAY_S = 1.0
# In a file, a log of CI for one, a word is worth its place only when somebody may be wondering.
FIRST_WORD_S, NEXT_WORD_S = 10.0, 60.0


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


class _Words:
    """A line after some seconds and then each minute, where there is no terminal."""

    def __init__(self, first_s: float, next_s: float) -> None:
        self._text = "working"
        self._first_s, self._next_s = first_s, next_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._talk, daemon=True)

    def say(self, text: str) -> None:
        self._text = text

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()  # no word comes after the answer

    def _talk(self) -> None:
        pause_s = self._first_s
        while not self._is_over.wait(pause_s):
            say(f"still waiting: {self._text}")
            pause_s = self._next_s


@contextlib.contextmanager
def waiting(
    *, is_wanted: bool, first_s: float = FIRST_WORD_S, next_s: float = NEXT_WORD_S
) -> Iterator[Callable[[str], None]]:
    """Show what is being done while a block runs.

    Args:
        is_wanted: Show it at all.
        first_s: When the first word comes where standard error is no terminal.
        next_s: When each further one comes there.

    Yields:
        A function that takes what is being done now.
    """
    if not is_wanted or sys.stderr is None:
        yield lambda _: None
        return
    shown = _Waiting() if sys.stderr.isatty() else _Words(first_s, next_s)
    shown.start()
    try:
        yield shown.say
    finally:
        shown.stop()
