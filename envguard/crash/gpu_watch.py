"""Readings of GPU memory from a child that asks NVML; none where there is nothing to ask."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import envguard

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHILD = Path(envguard.__file__).parent / "probe" / "_gpu_memory_child.py"
_LONGEST_LINE = 1 << 20


class GpuWatch:
    """A child that prints readings; NVML can hang or crash, and then takes only the child along.

    Args:
        interval_s: Seconds between readings.
    """

    def __init__(self, interval_s: float) -> None:
        self._rest = b""
        self._child: subprocess.Popen[bytes] | None = None
        if not any(Path(place).exists() for place in ("/dev/nvidiactl", "/dev/dxg")):
            return
        with contextlib.suppress(OSError):
            self._child = subprocess.Popen(
                [sys.executable, "-I", str(_CHILD), str(interval_s)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
            if self._child.stdout is not None:
                os.set_blocking(self._child.stdout.fileno(), False)

    def readings(self) -> Iterator[object]:
        """What came since the last call."""
        if self._child is None or self._child.stdout is None:
            return
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._child.stdout.fileno(), 1 << 16):
                self._rest = (self._rest + data)[-_LONGEST_LINE:]
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                yield json.loads(line)

    def close(self) -> None:
        """End the child; one that hangs in the driver is left to itself."""
        if self._child is None:
            return
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._child.wait(1)
        except subprocess.TimeoutExpired:
            self._child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(1)
