"""Runs uv: in a process group that ends with the call, within a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import IO

    from envguard.lock.runner import Uv

_TALK_BYTES = 256 * 1024
_REAP_S = 10.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run of uv ended.

    Args:
        returncode: Exit status; negative for a signal.
        talk: The end of what it said on stderr.
    """

    returncode: int
    talk: str


def run_uv(
    uv: Uv,
    arguments: Sequence[str],
    *,
    folder: Path,
    timeout_s: float,
    talk_bytes: int = _TALK_BYTES,
    meanwhile: Callable[[], None] | None = None,
    started: Started | None = None,
) -> Ended:
    """Run uv in a folder, in a process group of its own that ends with this call.

    Args:
        uv: The program.
        arguments: What follows the program's name.
        folder: Working directory.
        timeout_s: How long it may take.
        talk_bytes: How much of the end of stderr is kept.
        meanwhile: What can be done while it runs.
        started: A handle by which another thread can end it.

    Raises:
        ToolError: It cannot be started, or takes too long.
    """
    with (folder / "talk").open("w+b") as talk:
        started = started or Started()
        # A timer and a plain wait: waiting with a limit polls, and notices the end late.
        is_late = threading.Event()
        limit = threading.Timer(timeout_s, _end_late, (started, is_late))
        limit.daemon = True
        try:
            process = _start(uv, arguments, folder, talk, started)
            limit.start()
            if meanwhile is not None:
                meanwhile()
            process.wait()
        finally:  # also when the user interrupts
            limit.cancel()
            started.end()
        if is_late.is_set():
            raise ToolError(
                f"uv did not finish within {timeout_s:g} s",
                hint="the index may be slow: run it again, what was fetched is cached",
            )
        return Ended(process.returncode, _tail(talk, talk_bytes))


class Started:
    """A program that was started, or could not be."""

    def __init__(self) -> None:
        self.is_over = False
        self.process: subprocess.Popen[bytes] | None = None
        self.error: OSError | None = None
        self.thread: threading.Thread | None = None

    def end(self) -> None:
        """End it, if it was started, with everything that it started itself; it never will be."""
        self.is_over = True
        # a signal can come between the making of the thread and its start
        if self.thread is not None and self.thread.ident is not None:
            self.thread.join()
        if self.process is not None:
            _end_group(self.process)


def _start(
    uv: Uv, arguments: Sequence[str], folder: Path, talk: IO[bytes], started: Started
) -> subprocess.Popen[bytes]:
    """Start uv, in a thread: there no signal can come between the start and knowing of it."""
    started.thread = threading.Thread(target=_spawn, args=(uv, arguments, folder, talk, started))
    started.thread.start()
    started.thread.join()
    if started.process is None:
        reason = started.error.strerror or started.error if started.error else "no reason is given"
        raise ToolError(f"uv cannot be started: {uv.path}: {reason}") from started.error
    return started.process


def _spawn(
    uv: Uv, arguments: Sequence[str], folder: Path, talk: IO[bytes], started: Started
) -> None:
    windows = sys.platform == "win32"
    if started.is_over:
        return
    try:
        started.process = subprocess.Popen(
            [uv.path, *arguments],
            cwd=folder,
            env=dict(uv.variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=talk,
            start_new_session=not windows,
            creationflags=0x200 if windows else 0,  # CREATE_NEW_PROCESS_GROUP
        )
    except OSError as err:
        started.error = err


def _tail(stream: IO[bytes], limit: int) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - limit))
    return stream.read(limit).decode("utf-8", "replace")


def _end_late(started: Started, is_late: threading.Event) -> None:
    is_late.set()
    started.end()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End uv and the build backends that it started."""
    if sys.platform == "win32":
        if process.poll() is None:
            subprocess.run(
                ["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False
            )
    else:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
    process.wait(_REAP_S)
