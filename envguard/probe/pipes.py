"""Reads a child's two output pipes without ever blocking on them."""

from __future__ import annotations

import os
import queue
import selectors
import sys
import threading
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHUNK = 65536
_CLOSE_TRIES = 64
_CLOSE_S = 0.005


class Pipes:
    """What arrived on the pipes so far, each up to a limit.

    Args:
        streams: The reading ends.
        limit: Bytes kept of each.
    """

    def __init__(self, streams: Sequence[IO[bytes]], limit: int) -> None:
        self.is_full = False
        self._streams = tuple(streams)
        self._limit = limit
        self._data = [bytearray() for _ in self._streams]
        self._open = set(range(len(self._streams)))

    def pump(self, timeout_s: float) -> bool:
        """Take what arrives; returns at the latest after the time, False once all are closed."""
        raise NotImplementedError

    def close(self) -> None:
        """Give the reading ends back, also where a descendant still holds a writing end."""
        raise NotImplementedError

    def texts(self) -> list[str]:
        """What arrived on each, undecodable bytes replaced."""
        return [data.decode("utf-8", "replace") for data in self._data]

    def _feed(self, number: int, chunk: bytes) -> None:
        room = self._limit - len(self._data[number])
        self._data[number] += chunk[:room]
        if len(chunk) > room:
            self.is_full = True
        if not chunk:
            self._open.discard(number)


class SelectedPipes(Pipes):
    """For systems that can wait for pipes: no threads, which take milliseconds to start."""

    def __init__(self, streams: Sequence[IO[bytes]], limit: int) -> None:
        super().__init__(streams, limit)
        self._selector = selectors.DefaultSelector()
        for number, stream in enumerate(self._streams):
            self._selector.register(stream, selectors.EVENT_READ, number)

    def pump(self, timeout_s: float) -> bool:
        """Take one chunk of each pipe that has something."""
        for key, _ in self._selector.select(max(0.0, timeout_s)):
            chunk = os.read(key.fd, _CHUNK)
            self._feed(key.data, chunk)
            if not chunk:
                self._selector.unregister(key.fileobj)
        return bool(self._open)

    def close(self) -> None:
        """Close the selector and the reading ends."""
        self._selector.close()
        for stream in self._streams:
            stream.close()


class ThreadedPipes(Pipes):
    """For Windows, which can wait for a pipe only in a thread of its own."""

    def __init__(self, streams: Sequence[IO[bytes]], limit: int) -> None:
        super().__init__(streams, limit)
        self._queue: queue.Queue[tuple[int, bytes]] = queue.Queue(maxsize=16)
        self._threads = [
            threading.Thread(target=self._drain, args=pair, daemon=True)
            for pair in enumerate(self._streams)
        ]
        for thread in self._threads:
            thread.start()

    def _drain(self, number: int, stream: IO[bytes]) -> None:
        while chunk := os.read(stream.fileno(), _CHUNK):
            self._queue.put((number, chunk))
        self._queue.put((number, b""))

    def pump(self, timeout_s: float) -> bool:
        """Take one chunk of whichever thread has something."""
        try:
            self._feed(*self._queue.get(timeout=max(0.0, timeout_s)))
        except queue.Empty:
            return bool(self._open)
        return bool(self._open)

    def close(self) -> None:
        """Close the reading ends of the threads that are done, or end when their queue is."""
        for thread, stream in zip(self._threads, self._streams, strict=True):
            for _ in range(_CLOSE_TRIES):
                self.pump(0.0)  # a reader may wait for room in the queue
                thread.join(_CLOSE_S)
                if not thread.is_alive():
                    stream.close()
                    break
            # A reader whose pipe a descendant still holds keeps its end: closing would block.


def pipes_kind() -> type[Pipes]:
    """The kind of reader that this system needs."""
    return ThreadedPipes if sys.platform == "win32" else SelectedPipes
