"""Runs a program in a child that may hang, crash or talk without end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from envguard.facts.gaps import GapReason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OUTPUT_LIMIT = 8 * 1024 * 1024
_CHUNK = 65536
_POLL_S = 0.05
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


class _Pipe:
    """Drains one pipe in a thread, so that neither a full nor an inherited pipe blocks us."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self.is_full = False
        self._chunks: list[bytes] = []
        self._stream = stream
        self._limit = limit
        self.thread = threading.Thread(target=self._drain, daemon=True)
        self.thread.start()

    def _drain(self) -> None:
        size = 0
        while chunk := os.read(self._stream.fileno(), _CHUNK):
            self._chunks.append(chunk[: self._limit - size])
            size += len(chunk)
            if size > self._limit:
                self.is_full = True
                break

    def text(self) -> str:
        """What arrived so far."""
        return b"".join(self._chunks).decode("utf-8", "replace")

    def close(self) -> None:
        """Close the stream, unless a descendant still holds the other end open."""
        if not self.thread.is_alive():
            self._stream.close()


class Child:
    """A started program; :meth:`collect` waits for its end, for a limited time.

    It has no standard input and its own process group, which is killed as a whole when the
    time is up or the output limit is passed.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str],
        timeout_s: float,
        limit: int = _OUTPUT_LIMIT,
    ) -> None:
        self._program = Path(argv[0]).name  # pathlib adds nothing here
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._limit = limit
        self._error: OSError | ValueError | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pipes: tuple[_Pipe, ...] = ()
        try:
            self._process = _popen(argv, environ)
        except (OSError, ValueError) as err:  # ValueError: a NUL byte in an argument
            self._error = err
        else:
            streams = (self._process.stdout, self._process.stderr)
            self._pipes = tuple(_Pipe(stream, limit) for stream in streams if stream)

    def collect(self) -> ChildResult:
        """Wait for the end and say how it was; never raises, never waits beyond the limit."""
        if self._process is None:
            return self._not_started()
        problem = self._wait(self._process)
        if problem is not None:
            _kill_group(self._process)
        self._join()
        status = _reap(self._process)
        reason, detail = problem or _judge(status)
        texts = [pipe.text() for pipe in self._pipes]
        for pipe in self._pipes:
            pipe.close()
        return ChildResult(
            program=self._program,
            status=None if problem else status,
            stdout=texts[0],
            stderr=texts[1],
            reason=reason,
            detail=f"{self._program} {detail}" if detail else "",
        )

    def _not_started(self) -> ChildResult:
        reason = GapReason.UNREADABLE
        if isinstance(self._error, FileNotFoundError):
            reason = GapReason.ABSENT
        elif isinstance(self._error, PermissionError):
            reason = GapReason.FORBIDDEN
        words = getattr(self._error, "strerror", None) or str(self._error)
        detail = f"{self._program} could not be started: {words}"
        return ChildResult(self._program, None, reason=reason, detail=detail)

    def _wait(self, process: subprocess.Popen[bytes]) -> tuple[GapReason, str] | None:
        """Wait for the pipes to close; the reason why the child must be killed, or None."""
        while any(pipe.thread.is_alive() for pipe in self._pipes):
            remaining = self._deadline - time.monotonic()
            if remaining <= 0 and process.poll() is None:
                return GapReason.TIMED_OUT, f"gave no answer within {self._timeout_s:g} s"
            for pipe in self._pipes:
                pipe.thread.join(max(0.0, min(remaining, _POLL_S)))
            if process.poll() is not None:
                return None  # a descendant may hold the pipes open; it is not waited for
            if any(pipe.is_full for pipe in self._pipes):
                return GapReason.UNREADABLE, f"wrote more than {self._limit} bytes"
        return self._wait_closed(process)

    def _wait_closed(self, process: subprocess.Popen[bytes]) -> tuple[GapReason, str] | None:
        if any(pipe.is_full for pipe in self._pipes):
            return GapReason.UNREADABLE, f"wrote more than {self._limit} bytes"
        try:
            process.wait(max(0.0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return GapReason.TIMED_OUT, f"gave no answer within {self._timeout_s:g} s"
        return None

    def _join(self) -> None:
        """Take what the pipes still hold; end descendants that keep them open."""
        for pipe in self._pipes:
            pipe.thread.join(_POLL_S)
        if self._process and any(pipe.thread.is_alive() for pipe in self._pipes):
            _kill_group(self._process)
            for pipe in self._pipes:
                pipe.thread.join(_POLL_S)


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
        return GapReason.CRASHED, f"was ended by {signal_name(-status)}"
    if sys.platform == "win32" and status >= _WINDOWS_FATAL:
        return GapReason.CRASHED, f"ended with {status:#010x}"
    return None, ""


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; ``signal 99`` for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
