"""Runs uv: in a process group that ends with the call, within limits of time and memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.errors import InputError, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import IO

    from envguard.lock.runner import Uv

_TALK_BYTES = 256 * 1024
_REAP_S = 10.0
TIME_LIMIT_S = 900.0
# A resolution of vllm, deepspeed, transformers and jupyter together needs between 0.25 and 0.5 GiB;
# an endless page took 24 GB before anything said no.
_MOST_MEMORY_BYTES = 8 * 1024**3
_LEAST_MEMORY_BYTES = 2 * 1024**3
_OUT_OF_MEMORY = "memory allocation of"


class MemoryLimitError(ToolError):
    """uv took more memory than it may have."""


class Limits:
    """What one lock may take in all, whatever it asks of uv and of servers.

    Args:
        time_s: From now on.
        memory_bytes: Data of each run of uv and of what it starts (RLIMIT_DATA, which only Linux
            has in this sense); None for half of the machine's memory, 2 GiB to 8 GiB.

    Raises:
        InputError: The time is none.
    """

    def __init__(self, time_s: float = TIME_LIMIT_S, memory_bytes: int | None = None) -> None:
        if not 0 < time_s <= threading.TIMEOUT_MAX:
            raise InputError(f"--time-limit: {time_s:g} is no number of seconds above 0")
        self.time_s = time_s
        self.memory_bytes = memory_bytes or _usual_memory()
        self.looked_at: set[str] = set()
        self._ends = time.monotonic() + time_s

    def left_s(self) -> float:
        """The seconds that are left; 0 when none are."""
        return max(0.0, self._ends - time.monotonic())

    def late_error(self, doing: str) -> ToolError:
        """The error for when none are left.

        Args:
            doing: What was being done.
        """
        return ToolError(
            f"{doing} did not end within {self.time_s:g} s, the limit for the whole lock",
            hint="an index may be slow: run it again, what was fetched is cached, or give it more "
            "with --time-limit",
        )


def _usual_memory() -> int:
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has none, others may not know
        return _MOST_MEMORY_BYTES
    return min(_MOST_MEMORY_BYTES, max(_LEAST_MEMORY_BYTES, pages * size // 2))


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run of uv ended.

    Args:
        returncode: Exit status; negative for a signal.
        talk: The end of what it said on stderr.
    """

    returncode: int
    talk: str

    @property
    def is_out_of_memory(self) -> bool:
        """Whether it took more memory than it may have."""
        return self.returncode != 0 and _OUT_OF_MEMORY in self.talk


def run_uv(
    uv: Uv,
    arguments: Sequence[str],
    *,
    folder: Path,
    limits: Limits,
    talk_bytes: int = _TALK_BYTES,
    doing: str = "uv",
    meanwhile: Callable[[], None] | None = None,
    started: Started | None = None,
) -> Ended:
    """Run uv in a folder, in a process group of its own that ends with this call.

    Args:
        uv: The program.
        arguments: What follows the program's name.
        folder: Working directory.
        limits: What it may take.
        talk_bytes: How much of the end of stderr is kept.
        doing: What it does, for messages.
        meanwhile: What can be done while it runs.
        started: A handle by which another thread can end it.

    Raises:
        ToolError: It cannot be started, or takes too long.
        MemoryLimitError: It takes too much memory.
    """
    with (folder / "talk").open("w+b") as talk:
        started = started or Started()
        # A timer and a plain wait: waiting with a limit polls, and notices the end late.
        is_late = threading.Event()
        limit = threading.Timer(limits.left_s(), _end_late, (started, is_late))
        limit.daemon = True
        try:
            process = _start(uv, arguments, folder, talk, started)
            _limit_memory(process.pid, limits.memory_bytes)
            limit.start()
            if meanwhile is not None:
                meanwhile()
            process.wait()
        finally:  # also when the user interrupts
            limit.cancel()
            started.end()
        if is_late.is_set():
            raise limits.late_error(doing)
        ended = Ended(process.returncode, _tail(talk, talk_bytes))
        if ended.is_out_of_memory:
            raise MemoryLimitError(
                f"{doing} took more than {limits.memory_bytes / 1024**3:.1f} GiB of memory",
                hint="a page of an index may have no end: check the addresses of the indexes",
            )
        return ended


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


def _limit_memory(pid: int, most_bytes: int) -> None:
    """Let a process, and what it will start, have only so much data, where the platform can."""
    if sys.platform != "linux":
        return
    import resource

    try:
        soft, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
        stated = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
        most = min([most_bytes, *stated])
        resource.prlimit(pid, resource.RLIMIT_DATA, (most, most))
    except (ProcessLookupError, PermissionError):
        return  # it has ended, or this system lets nobody limit another process


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
