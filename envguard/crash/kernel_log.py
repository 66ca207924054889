"""The table of tasks that the kernel prints when memory runs out."""

from __future__ import annotations

import re

from envguard.crash.log import Task

# [ pid ] uid tgid total_vm rss, then 3 to 6 columns that differ between kernels, and the name.
_ROW = re.compile(
    rb"\[\s{0,8}(?P<pid>\d{1,9})\]\s{1,10}\d{1,10}\s{1,10}\d{1,9}\s{1,12}\d{1,15}\s{1,12}"
    rb"(?P<rss>\d{1,15})(?:\s{1,14}\d{1,20}){2,6}\s{1,14}(?P<adj>-?\d{1,5})\s{1,4}"
    rb"(?P<name>[A-Za-z_(~/.@:][^\n]{0,60})"
    rb"|(?P<head>\[\s{0,4}pid\s{0,4}\]\s{1,8}uid\s{1,6}tgid)"
)
_WORDS = (b"oom-kill", b"oom_score_adj", b"invoked oom-killer", b"out of memory", b"ut of memory:")
_MOST = 20_000


class TaskTable:
    """Collects the rows of the last out-of-memory event."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []
        self._was_near = False

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The rows, in their order."""
        return tuple(self._tasks)

    def feed(self, block: bytes, first_line: int) -> None:
        """Look for rows, in blocks with the kernel's words about memory and the one after.

        Args:
            block: Whole lines.
            first_line: Number of its first line.
        """
        is_near = any(word in block for word in _WORDS)
        if is_near or self._was_near:
            self._read(block, first_line)
        self._was_near = is_near

    def _read(self, block: bytes, first_line: int) -> None:
        line, counted = first_line, 0
        for match in _ROW.finditer(block):
            if match["head"]:
                self._tasks.clear()
                continue
            if len(self._tasks) >= _MOST:
                continue
            line += block.count(b"\n", counted, match.start())
            counted = match.start()
            name = match["name"].decode("utf-8", "replace").strip()
            self._tasks.append(
                Task(int(match["pid"]), name, int(match["rss"]), int(match["adj"]), line)
            )
