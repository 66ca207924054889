"""What one lock may take in all: time for uv and for servers, memory for uv."""

from __future__ import annotations

import os
import threading
import time

from envguard.errors import InputError, ToolError

TIME_LIMIT_S = 900.0


# A resolution of vllm, deepspeed, transformers and jupyter together needs between 0.25 and 0.5 GiB;
# an endless page took 24 GB before anything said no.
_MOST_MEMORY_BYTES = 8 * 1024**3


_LEAST_MEMORY_BYTES = 2 * 1024**3


class LockLimits:
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
