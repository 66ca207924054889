"""Start a command in its own process group, pass signals and the terminal through, and look on."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Protocol

from envguard.supervise.streams import (
    Passing,
    Stream,
    catch_up,
    close_all_but,
    copy_window,
    open_streams,
    read_some,
)
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


# Passed on to the child's group; SIGTSTP keeps its default so that stopping works.
FORWARDED = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM")
    if hasattr(signal, name)
)


# Of these, the ones that ask to come to an end; the others are for the job alone.
ENDING = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
    if hasattr(signal, name)
)


def hold_signals() -> None:
    """The job has ended: keep what is meant for it from ending this process in its place."""
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)


class SignalForwarder:
    """Handlers that forward signals to the child's group and wake the loop."""

    def __init__(self) -> None:
        self.group = 0
        self.reader, self._writer = os.pipe()
        self._before: dict[int, object] = {}

    def __enter__(self) -> SignalForwarder:
        for number in (self.reader, self._writer):
            os.set_blocking(number, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup's choice is the child's too
                self._before[number] = signal.signal(number, self._forward)
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # as signal.signal gave it
        os.close(self.reader)
        os.close(self._writer)

    def _forward(self, number: int, _frame: object) -> None:
        if self.group:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, number)

    def drain(self) -> None:
        """Empty the pipe that woke the loop."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.reader, 4096):
                pass


class Terminal:
    """The controlling terminal, lent to the child's process group while it runs.

    The child has a process group of its own in the same session. While envguard is in the
    foreground that group is made the foreground group, so that Ctrl-C, Ctrl-Z and the window's
    size reach the child from the kernel exactly as without envguard.
    """

    def __init__(self) -> None:
        self._handle = self._find()
        self._is_lent = False

    @staticmethod
    def _find() -> int | None:
        for number in (0, 2, 1):
            if os.isatty(number):
                with contextlib.suppress(OSError):
                    os.tcgetpgrp(number)
                    return number
        return None

    def lend(self, group: int) -> None:
        """Make the child's group the foreground one, if ours is."""
        if self._handle is None or not self._is_ours():
            return
        self._give(group)
        self._is_lent = True
        # It may have been stopped for touching the terminal before it had it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGCONT)

    def take_back(self) -> None:
        """Make our own group the foreground one again, if the terminal was lent."""
        if self._is_lent:
            self._give(os.getpgrp())
            self._is_lent = False

    def _is_ours(self) -> bool:
        try:
            return self._handle is not None and os.tcgetpgrp(self._handle) == os.getpgrp()
        except OSError:
            return False

    def _give(self, group: int) -> None:
        # A background process that does this is stopped, unless it ignores the signal.
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            with contextlib.suppress(OSError):
                os.tcsetpgrp(self._handle if self._handle is not None else 0, group)
        finally:
            signal.signal(signal.SIGTTOU, before)

    def stop_with(self, group: int) -> None:
        """The child was stopped: stop as well, so that the shell sees it; go on when told to."""
        if self._handle is None:
            return
        self.take_back()
        os.killpg(os.getpgrp(), signal.SIGTSTP)
        # Here the shell has continued us.
        self.lend(group)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGCONT)


_PR_SET_PDEATHSIG = 1
CAN_DIE_WITH_PARENT = sys.platform.startswith("linux")
# No more processes, handles, memory: of the system or of what this process may have.
_NO_ROOM = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


class NoRoomError(Exception):
    """There is no process, handle or memory left to run a command beside this process."""


def start(
    command: Sequence[str],
    streams: Sequence[Stream],
    environ: Mapping[str, str],
    *,
    dies_with_us: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own.

    A script without ``#!`` is run by the shell, as ``execvp`` and so nohup, env and timeout do.

    Raises:
        OSError: The system does not start it.
    """
    try:
        return _popen(command, streams, environ, dies_with_us=dies_with_us)
    except OSError as err:
        if err.errno != errno.ENOEXEC:
            raise
        script = with_shell(command, environ)
        return _popen(script, streams, environ, dies_with_us=dies_with_us)


def with_shell(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The command as one of the shell, which is given the script that ``PATH`` leads to."""
    found = shutil.which(command[0], path=environ.get("PATH"))
    return ["/bin/sh", found or command[0], *command[1:]]


def _popen(
    command: Sequence[str],
    streams: Sequence[Stream],
    environ: Mapping[str, str],
    *,
    dies_with_us: bool,
) -> subprocess.Popen[bytes]:
    out, err = streams
    return subprocess.Popen(
        list(command),
        stdout=None if out.child == 1 else out.child,
        stderr=None if err.child == 2 else err.child,
        env=dict(environ),
        process_group=0,
        restore_signals=True,
        # Its own are left to it: `<(...)`, `3>&1`, a lock, a jobserver. Python marks ours.
        close_fds=False,
        preexec_fn=_mortal_child() if dies_with_us else None,
    )


def close_ends(streams: Sequence[Stream]) -> None:
    """The child has its ends of the streams, or there is no child."""
    for number in {s.child for s in streams if s.child > 2}:
        os.close(number)


def _mortal_child() -> Callable[[], None]:
    """What a child has to do between fork and exec to die with this process.

    Only the child itself is bound: what it starts must bind itself, or end when its launcher does.

    Source: prctl(2), PR_SET_PDEATHSIG.
    """
    import ctypes  # where a job is started

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before it was asked for
            os.kill(os.getpid(), signal.SIGKILL)

    return bind


def status_of_refusal(err: OSError) -> int:
    """What a shell says of a command that the system does not start.

    Raises:
        NoRoomError: That is not the command's fault.
    """
    if err.errno in _NO_ROOM:
        raise NoRoomError(err.strerror or str(err)) from err
    return 127 if isinstance(err, FileNotFoundError) else 126


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
class CommandExit:
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
) -> CommandExit:
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
            return CommandExit(status, status, err.strerror or str(err))
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
    return CommandExit(code, code if code >= 0 else 128 - code)


def _supervise_plainly(
    command: Sequence[str], watcher: Watcher, environ: Mapping[str, str]
) -> CommandExit:
    """Where there are no process groups: the child shares everything, and is only sampled."""
    try:
        child = subprocess.Popen(list(command), env=dict(environ))
    except FileNotFoundError:
        return CommandExit(127, 127)
    except OSError:
        return CommandExit(126, 126)
    watcher.started(child.pid)
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            code = child.wait(watcher.tick())
            return CommandExit(code, code)


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
