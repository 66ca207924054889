"""Run a command in its own process group, pass everything through, and look on."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from envguard.crash.forwarding import FORWARDED, SignalForwarder, hold_signals
from envguard.crash.starting import NoRoomError, close_ends, start, status_of_refusal
from envguard.crash.streams import (
    Passing,
    Stream,
    catch_up,
    close_all_but,
    copy_window,
    open_streams,
    read_some,
)
from envguard.crash.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_POLL_S = 0.25
_DRAIN_S = 1.0
_MOST_READS = 200
_COPIED = (Passing.PIPE, Passing.TERMINAL)
_SHORT, _GATHER_S = 4096, 0.01


class Watcher(Protocol):
    """Who looks on while the command runs."""

    def started(self, pid: int) -> None:
        """The command runs with this process id."""

    def output(self, stream: int, data: bytes, block: bytes) -> bool:
        """Bytes went by on a stream; ``block`` is what of it makes whole lines.

        Returns:
            Whether a tick is wanted at once.
        """

    def left_out(self, size: int) -> None:
        """So many bytes of output came faster than they could be read."""

    def poll(self) -> bool:
        """A cheap look, several times a second; whether a tick is wanted at once."""

    def tick(self) -> float:
        """Time passes; gives the seconds until the next tick is wanted."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command ended.

    Args:
        returncode: As subprocess gives it: negative for a signal.
        status: What a shell would show: 128+n for a signal.
        refusal: Why the system did not start it; empty when it ran.
    """

    returncode: int
    status: int
    refusal: str = ""


def supervise(
    command: Sequence[str],
    watcher: Watcher,
    *,
    environ: Mapping[str, str],
    is_direct: bool = False,
    dies_with_us: bool = False,
) -> Ended:
    """Run a command to its end.

    Args:
        command: Program and arguments.
        watcher: Is told what happens.
        environ: Environment of the command.
        is_direct: Give the child the very streams and read nothing.
        dies_with_us: Have the kernel kill the child when this process dies.

    Returns:
        How it ended; status 127 when there is no such program and 126 when it cannot be run, as
        a shell gives. Signals for the job are held then, until
        :meth:`envguard.crash.guard.Guard.keeping_status` heeds them.

    Raises:
        NoRoomError: The command was not started, and may be where nothing is set up around it.
    """
    if os.name == "nt":
        return _supervise_plainly(command, watcher, environ)
    terminal = Terminal()
    with contextlib.ExitStack() as stack:
        try:
            streams = open_streams(is_direct=is_direct)
            stack.callback(_close_readers, streams)
            signals = stack.enter_context(SignalForwarder())
            selector = stack.enter_context(selectors.DefaultSelector())
        except OSError as err:
            raise NoRoomError(err.strerror or str(err)) from err
        try:
            child = start(command, streams, environ, dies_with_us=dies_with_us)
        except OSError as err:
            status = status_of_refusal(err)
            return Ended(status, status, err.strerror or str(err))
        finally:
            close_ends(streams)
        signals.group = child.pid
        terminal.lend(child.pid)
        watcher.started(child.pid)
        try:
            code = _Loop(child.pid, streams, watcher, signals, terminal, selector).run()
            hold_signals()
        finally:
            terminal.take_back()
    child.returncode = code  # it was waited for here
    return Ended(code, code if code >= 0 else 128 - code)


def _supervise_plainly(
    command: Sequence[str], watcher: Watcher, environ: Mapping[str, str]
) -> Ended:
    """Where there are no process groups: the child shares everything, and is only sampled."""
    try:
        child = subprocess.Popen(list(command), env=dict(environ))
    except FileNotFoundError:
        return Ended(127, 127)
    except OSError:
        return Ended(126, 126)
    watcher.started(child.pid)
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            code = child.wait(watcher.tick())
            return Ended(code, code)


def _close_readers(streams: Sequence[Stream]) -> None:
    """Give the handles back, so that there are some for the diagnosis."""
    for stream in streams:
        if stream.reader is not None:
            with contextlib.suppress(OSError):
                os.close(stream.reader)
            stream.reader = None
            stream.is_open = False


class _Loop:
    """Copies, watches and waits until the child has ended."""

    def __init__(
        self,
        pid: int,
        streams: Sequence[Stream],
        watcher: Watcher,
        signals: SignalForwarder,
        terminal: Terminal,
        selector: selectors.BaseSelector,
    ) -> None:
        self._pid = pid
        self._streams = streams
        self._watcher = watcher
        self._signals = signals
        self._terminal = terminal
        self._code: int | None = None
        self._is_due = False
        self._copied_at = 0.0
        self._selector = selector
        self._selector.register(signals.reader, selectors.EVENT_READ)
        for stream in streams:
            if stream.reader is not None and stream.passing is not Passing.TAIL:
                self._selector.register(stream.reader, selectors.EVENT_READ, stream)

    def run(self) -> int:
        """Loop until the child has ended and its streams are empty."""
        next_tick = time.monotonic()
        self._reap()  # it may have ended before the handlers were asked
        while self._code is None:
            wait = min(_POLL_S, max(0.0, next_tick - time.monotonic()))
            self._turn(wait)
            self._is_due = self._watcher.poll() or self._is_due
            if self._is_due or time.monotonic() >= next_tick:
                self._is_due = False
                self._follow()
                self._resize()
                next_tick = time.monotonic() + self._watcher.tick()
        self._drain()
        self._leave_copier()
        return self._code

    def _turn(self, wait: float) -> bool:
        """Wait for output or a signal; whether any output came."""
        came = False
        for key, _ in self._selector.select(wait):
            if key.data is None:
                self._signals.drain()
                self._reap()
            else:
                came = self._copy(key.data) or came
        return came

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                self._terminal.stop_with(self._pid)
            else:
                self._code = os.waitstatus_to_exitcode(status)

    def _copy(self, stream: Stream) -> bool:
        data = read_some(stream)
        if not stream.is_open:
            self._selector.unregister(stream.reader or 0)
            return False
        if not _write_all(stream.number, data):
            # Nobody reads us any more: let the child find that out as it would without us.
            self._selector.unregister(stream.reader or 0)
            os.close(stream.reader or 0)
            stream.reader = None
            stream.is_open = False
        self._show(stream, data)
        self._breathe(len(data))
        return True

    def _breathe(self, size: int) -> None:
        """Let short writes that come in quick succession gather: a wake-up for each is dear."""
        now = time.monotonic()
        if size < _SHORT and now - self._copied_at < _GATHER_S:
            time.sleep(_GATHER_S)
            now = time.monotonic()
        self._copied_at = now

    def _show(self, stream: Stream, data: bytes) -> None:
        block = stream.take(data)
        self._is_due = self._watcher.output(stream.number, data, block) or self._is_due

    def _follow(self) -> None:
        for stream in self._streams:
            if stream.passing is not Passing.TAIL:
                continue
            left_out = catch_up(stream)
            if left_out:
                stream.carry = b""
                self._watcher.left_out(left_out)
            # No more at a time than that: the file may grow as fast as it is read.
            for _ in range(_MOST_READS):
                if not (data := read_some(stream)):
                    break
                self._show(stream, data)

    def _resize(self) -> None:
        for stream in self._streams:
            if stream.passing is Passing.TERMINAL and stream.is_open and stream.reader is not None:
                copied = copy_window(stream.number, stream.reader)
                if copied:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.killpg(self._pid, signal.SIGWINCH)

    def _drain(self) -> None:
        """Take what the child left in its streams; processes it left behind keep theirs."""
        until = time.monotonic() + _DRAIN_S
        while len(self._selector.get_map()) > 1 and time.monotonic() < until:
            if not self._turn(0.05):
                break
        self._follow()
        for stream in self._streams:
            if stream.carry:
                self._watcher.output(stream.number, b"", stream.carry + b"\n")
                stream.carry = b""

    def _leave_copier(self) -> None:
        """What processes that the command left behind still print goes on to where it went.

        Without envguard they would hold the very streams. A copy of this process passes on what
        they write until they are gone, while this one ends as the command did.
        """
        left = [s for s in self._streams if s.is_open and s.passing in _COPIED]
        if not left:
            return
        try:
            pid = os.fork()
        except OSError:  # no process is left: they find their reader gone
            return
        if pid:
            return
        try:
            _copy_to_the_end(left)
        finally:
            os._exit(0)  # the copy runs nothing of this program's end


def _copy_to_the_end(streams: Sequence[Stream]) -> None:
    kept = {s.reader for s in streams if s.reader is not None} | {s.number for s in streams}
    close_all_but(kept)
    for number in FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup's choice stays
            signal.signal(number, signal.SIG_DFL)
    with selectors.SelectSelector() as selector:
        for stream in streams:
            selector.register(stream.reader or 0, selectors.EVENT_READ, stream)
        while selector.get_map():
            for key, _ in selector.select():
                data = read_some(key.data)
                if not key.data.is_open or not _write_all(key.data.number, data):
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    os.close(key.data.number)


def _write_all(number: int, data: bytes) -> bool:
    """Write everything; False when nobody reads any more."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(number, view) :]
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:
            return False
    return True
