"""Reads the side file in which the child writes down each beginning and end of a stage."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# The child writes a few KiB a stage; more is rubbish from a process gone wild.
_MAX_BYTES = 1024 * 1024


def clean_text(text: str) -> str:
    """Text without control characters: a terminal would obey the escapes in it."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


class ProgressReader:
    """Follows the side file; lines that are no records of ours are counted and left out.

    Args:
        path: The file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._partial = b""
        self.rubbish_lines = 0
        self.ends: dict[str, Mapping[str, Any]] = {}
        self.begins: dict[str, Mapping[str, Any]] = {}
        self.parts: dict[str, str] = {}
        self.start: Mapping[str, Any] = {}
        self.current: str | None = None
        self.since = time.monotonic()

    def read(self) -> None:
        """Take in what was written since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(_MAX_BYTES - self._offset)
        except FileNotFoundError:
            return
        self._offset += len(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            record = json.loads(line, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            self.rubbish_lines += 1
            return
        stage = record.get("stage")
        match record.get("event"):
            case "start":
                self.start = record
                self.since = time.monotonic()
            case "begin" if isinstance(stage, str):
                self.current, self.begins[stage] = stage, record
                self.since = time.monotonic()
            case "part" if isinstance(stage, str) and isinstance(record.get("part"), str):
                self.parts[stage] = clean_text(record["part"])
            case "end" if isinstance(stage, str):
                self.current, self.ends[stage] = None, record
                self.since = time.monotonic()
            case _:
                self.rubbish_lines += 1
