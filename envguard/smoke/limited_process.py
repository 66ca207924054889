"""Runs a program with time limits and an output cap, and ends its whole process group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_POLL_S = 0.05
_DRAIN_S = 1.0
_REAP_S = 10.0
_STACK_S = 1.0
_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class Capture:
    """The end of what a program wrote to one stream.

    Args:
        text: The last part, undecodable bytes replaced.
        total_bytes: How much there was in all.
    """

    text: str = ""
    total_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Completed:
    """How a program ended.

    Args:
        returncode: As subprocess gives it: ``-n`` for a signal; None when the process could
            not be ended even by SIGKILL (it hangs inside the kernel).
        stopped_for: Why it was ended here; empty when it ended by itself.
        seconds: Wall time.
    """

    returncode: int | None
    stopped_for: str
    seconds: float
    stdout: Capture
    stderr: Capture


class _TailReader(threading.Thread):
    """Reads a pipe to its end and keeps the last bytes.

    A daemon: a process that left the group may hold the pipe open for ever.
    """

    def __init__(self, cap_bytes: int) -> None:
        super().__init__(daemon=True)
        self._source, self.sink = os.pipe()
        self._cap = cap_bytes
        self._tail = b""
        self._total = 0

    def run(self) -> None:
        while chunk := os.read(self._source, _CHUNK):
            self._total += len(chunk)
            self._tail = (self._tail + chunk)[-self._cap :]
        os.close(self._source)

    def capture(self) -> Capture:
        return Capture(self._tail.decode("utf-8", "replace"), self._total)


def run_limited(
    command: Sequence[str],
    *,
    variables: Mapping[str, str],
    watch: Callable[[int], str],
    output_cap_bytes: int,
) -> Completed:
    """Run a program in a process group of its own.

    Args:
        command: Program and arguments.
        variables: The whole environment.
        watch: Called about twenty times a second with the process id; a text that is not
            empty ends the program, and becomes ``stopped_for``.
        output_cap_bytes: How much of the end of each stream is kept.

    Raises:
        InputError: The program cannot be started.
    """
    readers = (_TailReader(output_cap_bytes), _TailReader(output_cap_bytes))
    started = time.monotonic()
    try:
        process = _start(command, variables, readers[0].sink, readers[1].sink)
    finally:
        for reader in readers:
            os.close(reader.sink)
            reader.start()
    stopped_for = ""
    try:
        stopped_for = _wait(process, watch)
        if stopped_for:
            _ask_for_stack(process)
    finally:  # also when the user interrupts
        end_group(process)
    seconds = time.monotonic() - started
    # What is left in the pipes is there at once; only a process that left the group, and
    # holds them open, is waited for in vain.
    for reader in readers:
        reader.join(max(0.0, started + seconds + _DRAIN_S - time.monotonic()))
    return Completed(
        process.returncode, stopped_for, seconds, readers[0].capture(), readers[1].capture()
    )


def _start(
    command: Sequence[str], variables: Mapping[str, str], out: int, err: int
) -> subprocess.Popen[bytes]:
    windows = sys.platform == "win32"
    try:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=dict(variables),
            start_new_session=not windows,
            creationflags=0x200 if windows else 0,  # CREATE_NEW_PROCESS_GROUP
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in an argument
        words = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{command[0]} cannot be started: {words}") from error


def _wait(process: subprocess.Popen[bytes], watch: Callable[[int], str]) -> str:
    while True:
        try:
            process.wait(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            reason = watch(process.pid)
            if reason:
                return reason
        else:
            watch(process.pid)
            return ""


def _ask_for_stack(process: subprocess.Popen[bytes]) -> None:
    """Let faulthandler write where it hangs, before the whole group is ended."""
    if sys.platform == "win32":
        return
    process.send_signal(signal.SIGABRT)
    try:
        process.wait(timeout=_STACK_S)
    except subprocess.TimeoutExpired:
        return  # it ignores SIGABRT or hangs in the kernel: end_group goes on


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started, and collect its exit status."""
    if sys.platform == "win32":
        if process.poll() is None:
            subprocess.run(
                ["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False
            )
    else:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # all of them ended
        except PermissionError:
            process.kill()  # a group member changed its user; macOS says so for zombies too
    try:
        process.wait(timeout=_REAP_S)
    except subprocess.TimeoutExpired:
        return  # in an uninterruptible call of a driver; returncode stays None
