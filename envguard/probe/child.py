"""Runs a program in a child that may hang, crash or talk without end."""

from __future__ import annotations

import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

from envguard.facts.gaps import GapReason
from envguard.facts.sentences import say
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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


_OUTPUT_LIMIT = 8 * 1024 * 1024
_POLL_S = 0.05
_DRAIN_TRIES = 256  # of 64 KiB each, above the output limit
_REAP_S = 1.0
_WINDOWS_FATAL = 0x80000000


@dataclass(frozen=True, slots=True)
class ChildResult:
    """How a child ended and what it wrote.

    Args:
        program: What was run, for messages.
        status: Exit status; negative for a signal; None when it was not started or was killed.
        stdout: What it wrote, up to the limit, undecodable bytes replaced.
        stderr: Likewise.
        reason: Why there is no usable end: TIMED_OUT, CRASHED, ABSENT, FORBIDDEN or UNREADABLE
            (it could not be started, or wrote more than the limit); None when it exited.
        detail: One line for a person where ``reason`` is set.
    """

    program: str
    status: int | None
    stdout: str = ""
    stderr: str = ""
    reason: GapReason | None = None
    detail: str = ""

    @property
    def last_words(self) -> str:
        """The last line that is not empty of stderr, else of stdout."""
        lines = [line.strip() for line in f"{self.stdout}\n{self.stderr}".splitlines()]
        return next((line for line in reversed(lines) if line), "")

    @property
    def ending(self) -> str:
        """``ended with status 7: <last words>``, for a child that gave no usable answer."""
        words = f": {self.last_words[:200]}" if self.last_words else ""
        return say("ended with status {status}{reason}", status=self.status, reason=words)


class Child:
    """A started program; :meth:`collect` waits for its end, for a limited time.

    It has no standard input and its own process group, which is killed as a whole when the
    time is up or the output limit is passed.

    Args:
        argv: The program and its arguments.
        environ: All its environment variables.
        timeout_s: Seconds from now.
        limit: Bytes that it may write to each of stdout and stderr.
        pipes: How its output is read; None is as the system needs it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str],
        timeout_s: float,
        limit: int = _OUTPUT_LIMIT,
        pipes: type[Pipes] | None = None,
    ) -> None:
        self._program = Path(argv[0]).name
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._limit = limit
        self._error: OSError | ValueError | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._result: ChildResult | None = None
        try:
            self._process = _popen(argv, environ)
        except (OSError, ValueError) as err:  # ValueError: a NUL byte in an argument
            self._error = err
            return
        streams = [s for s in (self._process.stdout, self._process.stderr) if s]
        self._pipes = (pipes or pipes_kind())(streams, limit)

    def collect(self) -> ChildResult:
        """Wait for the end and say how it was; never raises, never waits beyond the limit."""
        if self._result is None:
            self._result = self._collect()
        return self._result

    def stop(self) -> None:
        """Kill it unless it was collected: nobody wants the answer any more."""
        if self._result is None and self._process is not None:
            _kill_group(self._process)
            self._result = self._collect()

    def _collect(self) -> ChildResult:
        if self._process is None:
            return self._not_started()
        problem = self._wait(self._process)
        if problem is not None:
            _kill_group(self._process)
        self._drain(self._process)
        status = _reap(self._process)
        reason, detail = problem or _judge(status)
        stdout, stderr = self._pipes.texts()
        self._pipes.close()
        return ChildResult(
            program=self._program,
            status=None if problem else status,
            stdout=stdout,
            stderr=stderr,
            reason=reason,
            detail=say("{program} {detail}", program=self._program, detail=detail)
            if detail
            else "",
        )

    def _not_started(self) -> ChildResult:
        reason = GapReason.UNREADABLE
        if isinstance(self._error, FileNotFoundError):
            reason = GapReason.ABSENT
        elif isinstance(self._error, PermissionError):
            reason = GapReason.FORBIDDEN
        words = getattr(self._error, "strerror", None) or str(self._error)
        detail = say(
            "{program} could not be started: {reason}", program=self._program, reason=words
        )
        return ChildResult(self._program, None, reason=reason, detail=detail)

    def _wait(self, process: subprocess.Popen[bytes]) -> tuple[GapReason, str] | None:
        """Wait for the child's end; the reason why it must be killed, or None."""
        late = GapReason.TIMED_OUT, say("gave no answer within {time:g} s", time=self._timeout_s)
        while self._pipes.pump(min(_POLL_S, self._deadline - time.monotonic())):
            if self._pipes.is_full:
                return GapReason.UNREADABLE, say("wrote more than {limit} bytes", limit=self._limit)
            if process.poll() is not None:
                return None  # a descendant may hold the pipes open; it is not waited for
            if time.monotonic() >= self._deadline:
                return late
        if self._pipes.is_full:
            return GapReason.UNREADABLE, say("wrote more than {limit} bytes", limit=self._limit)
        try:
            process.wait(max(0.0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return late
        return None

    def _drain(self, process: subprocess.Popen[bytes]) -> None:
        """Take what the pipes still hold; end descendants that keep them open."""
        for _ in range(_DRAIN_TRIES):
            if not self._pipes.pump(0.0):
                return
        if self._pipes.pump(_POLL_S):
            _kill_group(process)
            self._pipes.pump(_POLL_S)


def _popen(argv: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environ),
        start_new_session=True,
        creationflags=flags,
    )


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the child and everything in its process group."""
    if sys.platform == "win32":
        _kill_tree(process.pid)
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # gone already, or it changed its user
        process.kill()


def _kill_tree(pid: int) -> None:
    import psutil

    try:
        parent = psutil.Process(pid)
        doomed = [*parent.children(recursive=True), parent]
    except psutil.NoSuchProcess:
        return
    for process in doomed:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def _reap(process: subprocess.Popen[bytes]) -> int | None:
    """The exit status; None for a child that even SIGKILL does not end (stuck in the kernel)."""
    try:
        return process.wait(_REAP_S)
    except subprocess.TimeoutExpired:
        return None


def _judge(status: int | None) -> tuple[GapReason | None, str]:
    """Whether an exit status is a crash, and its name."""
    if status is None:
        return GapReason.TIMED_OUT, "does not end even when killed"
    if status < 0:
        return GapReason.CRASHED, say("was ended by {signal}", signal=signal_name(-status))
    if sys.platform == "win32" and status >= _WINDOWS_FATAL:
        return GapReason.CRASHED, say("ended with {status:#010x}", status=status)
    return None, ""


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; ``signal 99`` for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return say("signal {number}", number=number)
