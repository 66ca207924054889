"""What can go wrong in a child, done on demand; planted by ``FAKE_TORCH_FAULTS``."""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_FAULTS = dict(word.split("=") for word in os.environ.get("FAKE_TORCH_FAULTS", "").split())


def _flood() -> None:
    block = b"flood " * 20_000
    for _ in range(850):  # 102 MB
        os.write(1, block)


def _rubbish() -> None:
    print('{"event": "end", "stage": "forward", "status": "ok"}')  # noqa: T201 - rubbish to stdout
    os.write(1, b"\xff\xfe\x00 not text \x1b[31m\n")
    os.write(2, b"\xc3\x28 neither is this\n")


def _fork(*, leaves_group: bool) -> None:
    pid = os.fork()
    if pid == 0:
        if leaves_group:
            os.setsid()
        time.sleep(600)
        os._exit(0)
    file = os.environ.get("FAKE_TORCH_PID_FILE")
    if file:
        Path(file).write_text(str(pid), encoding="ascii")


def _exhaust_memory() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    hoard = []
    while True:
        hoard.append(bytearray(1 << 24))


def _eat_and_hang() -> None:
    hoard = b"x" * (1 << 28)
    time.sleep(3600)
    del hoard


def _tell_and_hang() -> None:
    Path(os.environ["FAKE_TORCH_PID_FILE"]).write_text(str(os.getpid()), encoding="ascii")
    time.sleep(3600)


def _scribble() -> None:
    for fd in range(3, 12):
        try:
            os.write(fd, b'\xff rubbish {"event": \n[1, 2]\n"text"\n{"event": "begin"}\n')
        except OSError:
            continue  # not open


def _raise() -> None:
    raise RuntimeError(os.environ["FAKE_TORCH_MESSAGE"])


def _import_error() -> None:
    raise ImportError(os.environ["FAKE_TORCH_MESSAGE"])


def _import_missing() -> None:
    raise ModuleNotFoundError("No module named 'typing_extensions'", name="typing_extensions")


def _say_and_abort() -> None:
    os.write(2, os.environ["FAKE_TORCH_MESSAGE"].encode() + b"\n")
    os.abort()


_FAULT_KINDS: dict[str, Callable[[], Any]] = {
    "segfault": lambda: ctypes.string_at(0),
    "segfault-at-exit": lambda: atexit.register(ctypes.string_at, 0),
    "abort": os.abort,
    "say-and-abort": _say_and_abort,
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "illegal-instruction": lambda: os.kill(os.getpid(), signal.SIGILL),
    "hang-at-exit": lambda: atexit.register(time.sleep, 3600),
    "eat-and-hang": _eat_and_hang,
    "tell-and-hang": _tell_and_hang,
    "hang": lambda: time.sleep(3600),
    "hang-with-gil": lambda: ctypes.PyDLL(None).sleep(3600),
    "raise": _raise,
    "import-error": _import_error,
    "import-missing": _import_missing,
    "exit": lambda: os._exit(0),
    "sys-exit": lambda: sys.exit(3),
    "interrupt": lambda: signal.raise_signal(signal.SIGINT),
    "rubbish": _rubbish,
    "flood": _flood,
    "fork": lambda: _fork(leaves_group=False),
    "fork-away": lambda: _fork(leaves_group=True),
    "memory": _exhaust_memory,
    "scribble": _scribble,
    "close-files": lambda: os.closerange(3, 256),
}


def trip(operation: str) -> float:
    """Do the fault that is planted here; the factor that right numbers are spoilt with."""
    kind = _FAULTS.get(operation, "")
    if kind in {"wrong", "nan"}:
        return 1.25 if kind == "wrong" else math.nan
    if kind:
        _FAULT_KINDS[kind]()
    return 1.0
