"""The search of a run's output in a process of its own: no pattern holds up the job's pipe.

A thread would not do: the matcher of Python's ``re`` keeps the interpreter to itself until it is
done. The process is a fork, so that starting it costs no imports. It is given blocks of output,
says which phase of the run they show, and gives the evidence in the end.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import struct
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envguard.crash.log import Log
from envguard.crash.phases import MARKS
from envguard.crash.scan import Scanner
from envguard.facts.codec import from_dict, to_dict
from envguard.facts.sentences import say
from envguard.signatures import SearchPattern, SignatureMatch
from envguard.supervise.guard import reason_of
from envguard.supervise.streams import close_all_but, occupy_standard_streams

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType


_HEAD = struct.Struct(">cI")
_BLOCK, _PASSED = b"b", b"p"
_MOST_WAITING = 8 * 2**20
_MOST_AT_END = 256 * 2**10
_ON_THE_WAY = 64 * 2**10
_BLOCK_S = 2.0  # of processor time for one block, which takes milliseconds
_HURRY_S = 2.0


class OutputSearch:
    """Searches output beside the job; what it cannot keep up with is passed over and counted.

    Args:
        marks: What to look for.

    Raises:
        OSError: There is no process or handle left for it.
    """

    def __init__(self, marks: Sequence[SearchPattern]) -> None:
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._sending = memoryview(b"")
        self._passed_lines = 0
        self._received = b""
        self._log: Log | None = None
        self._is_gone = False
        self._told = deque[SignatureMatch](maxlen=1)
        self.failure = ""
        self.passed_bytes = 0
        self._socket, self._pid = _fork(marks)

    def feed(self, block: bytes) -> None:
        """Take output; never waits."""
        self._waiting.append(block)
        self._size += len(block)
        self._trim(_MOST_WAITING)
        self.pump()

    def _trim(self, most: int) -> None:
        """Pass over the oldest that waits: what a run says last tells why it ended."""
        while self._size > most and len(self._waiting) > 1:
            block = self._waiting.popleft()
            self._size -= len(block)
            self._passed_lines += block.count(b"\n")
            self.passed_bytes += len(block)

    def pump(self) -> SignatureMatch | None:
        """Send and receive as much as goes without waiting.

        Returns:
            The last line that shows a phase, where a later one came.
        """
        while not self._is_gone and self._next():
            try:
                self._sending = self._sending[self._socket.send(self._sending) :]
            except BlockingIOError:
                break
            except OSError as err:
                self._lose(reason_of(err))
        self._receive()
        return self._told.pop() if self._told else None

    def _next(self) -> bool:
        """Whether there is something to send."""
        if not self._sending and self._passed_lines:
            self._sending = memoryview(_HEAD.pack(_PASSED, self._passed_lines))
            self._passed_lines = 0
        elif not self._sending and self._waiting:
            block = self._waiting.popleft()
            self._size -= len(block)
            self._sending = memoryview(_HEAD.pack(_BLOCK, len(block)) + block)
        return bool(self._sending)

    def _receive(self) -> None:
        while not self._is_gone:
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                break
            except OSError as err:
                self._lose(reason_of(err))
                break
            self._received += data
            *lines, self._received = self._received.split(b"\n")
            for line in lines:
                self._take(json.loads(line))
            if not data:
                self._lose("its process was ended")

    def _take(self, told: Any) -> None:
        if "hit" in told:
            self._told.append(from_dict(SignatureMatch, told["hit"], "hit"))
        if "failed" in told:
            self.failure = str(told["failed"])
        if "log" in told:
            self._log = _log_of(told["log"], told["hits"])
            self.passed_bytes += int(told["passed_bytes"])

    def _lose(self, why: str) -> None:
        self._is_gone = True
        if self._log is None:
            self.failure = self.failure or why

    def finish(self, patience_s: float) -> Log:
        """The evidence, when the run has ended.

        Args:
            patience_s: How long to wait for a search that is behind; after that only the end of
                the output is searched, for as long again.

        Returns:
            What was found; remarks say what was passed over.
        """
        self._waiting.append(b"")  # an empty block is the end
        self._wait(patience_s)
        self._trim(_MOST_AT_END)
        self._wait(patience_s)
        if self._log is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGUSR1)
            self._wait(_HURRY_S)
        self.close()
        if self._log is None:
            self.failure = self.failure or "it did not come to its end"
            return Log("output")
        return replace(self._log, notes=(*self._log.notes, *self._remarks()))

    def _remarks(self) -> tuple[str, ...]:
        if not self.passed_bytes:
            return ()
        size = f"{self.passed_bytes / 2**20:.1f} MiB"
        return (
            say(
                "{size} of the output were not searched: the search fell behind the job", size=size
            ),
        )

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            while self._log is None and not self._is_gone:
                left = until - time.monotonic()
                if left <= 0:
                    return
                wanted = selectors.EVENT_WRITE if self._next() else 0
                selector.modify(self._socket, selectors.EVENT_READ | wanted)
                selector.select(left)
                hit = self.pump()
                if hit is not None:
                    self._told.append(hit)

    def close(self) -> None:
        """End the process."""
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            self._pid = 0
            self._is_gone = True
            self._socket.close()


def _log_of(rest: object, hits: Sequence[object]) -> Log:
    """A log from what the other process said of it."""
    found: dict[str, tuple[SignatureMatch, ...]] = {}
    for told in hits:
        hit = from_dict(SignatureMatch, told, "hit")
        found[hit.id] = (*found.get(hit.id, ()), hit)
    return replace(from_dict(Log, rest, "log"), matches=found)


def _fork(marks: Sequence[SearchPattern]) -> tuple[socket.socket, int]:
    parent = os.getpid()
    ours, its = socket.socketpair()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ON_THE_WAY)
    gc.freeze()  # pages that the collector does not touch stay shared
    # The copy may be told to hurry before it can heed that, on a machine that is busy.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        pid = os.fork()
    except OSError:
        ours.close()
        its.close()
        raise
    finally:
        if os.getpid() == parent:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if pid:
        its.close()
        return ours, pid
    status = 1
    try:
        _be_alone(its)
        _Searcher(its, marks).serve()
        status = 0
    finally:
        # Whatever happens, the copy of the program ends here and runs none of its clean-up.
        os._exit(status)


def _be_alone(channel: socket.socket) -> None:
    """Hold nothing that belongs to the job, and heed no signal that is meant for it."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGUSR2", "SIGPIPE"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    close_all_but({channel.fileno()})
    occupy_standard_streams()


class _TooSlowError(Exception):
    """Raised in the middle of a match, which looks for signals now and then."""


class _Searcher:
    """The other side: searches blocks until it is told that there are no more."""

    def __init__(self, channel: socket.socket, marks: Sequence[SearchPattern]) -> None:
        self._channel = channel
        self._scanner = Scanner(marks)
        self._told = -1
        self._is_searching = False
        self._is_hurried = False
        self._passed_bytes = 0
        signal.signal(signal.SIGVTALRM, self._stop)
        signal.signal(signal.SIGUSR1, self._hurry)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})

    def serve(self) -> None:
        """Read blocks to the end, and say what was found."""
        try:
            for block in self._blocks():
                self._search(block)
                self._tell_phase()
            log = self._scanner.finish("output")
            hits = [to_dict(hit) for kept in log.matches.values() for hit in kept]
            rest = to_dict(replace(log, matches={}))
            self._say({"log": rest, "hits": hits, "passed_bytes": self._passed_bytes})
        except Exception as err:  # noqa: BLE001 - it is told to the process that shows it
            self._say({"failed": reason_of(err)})

    def _blocks(self) -> Iterator[bytes]:
        with self._channel.makefile("rb") as frames:
            while len(head := frames.read(_HEAD.size)) == _HEAD.size:
                kind, number = _HEAD.unpack(head)
                if kind == _PASSED:
                    self._scanner.pass_lines(number)
                elif number:
                    yield frames.read(number)
                else:
                    return

    def _search(self, block: bytes) -> None:
        is_closed = block.endswith(b"\n")
        try:
            if self._is_hurried:
                raise _TooSlowError  # noqa: TRY301 - the one place where a block is passed over
            signal.setitimer(signal.ITIMER_VIRTUAL, _BLOCK_S)
            self._is_searching = True
            self._scanner.feed(block, is_closed=is_closed)
            self._is_searching = False
        except _TooSlowError:
            self._is_searching = False
            self._passed_bytes += len(block)
            self._scanner.pass_block(block, is_closed=is_closed)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_searching:
            self._is_searching = False
            raise _TooSlowError

    def _hurry(self, number: int, frame: FrameType | None) -> None:
        self._is_hurried = True
        self._stop(number, frame)

    def _tell_phase(self) -> None:
        hit = self._scanner.latest(MARKS)
        if hit is not None and hit.order > self._told:
            self._told = hit.order
            self._say({"hit": to_dict(hit)})

    def _say(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more
            self._channel.sendall(json.dumps(message).encode() + b"\n")
