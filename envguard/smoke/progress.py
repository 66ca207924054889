"""Reads the side file in which the child writes down each beginning and end of a stage."""

from __future__ import annotations

import json
import math
import os
import stat
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# The child writes a few KiB a stage; more is rubbish from a process gone wild.
_MAX_BYTES = 1024 * 1024
_MOST_LEVELS = 8
_MOST = 1 << 63  # nothing that is measured here, in bytes or seconds, is larger


def clean_text(text: str) -> str:
    """Text without control characters: a terminal would obey the escapes in it."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def read_side_file(path: Path, limit: int, *, offset: int = 0) -> bytes:
    """A piece of a file that the child writes.

    The library under test runs with the rights of the user and may put anything in its place:
    opening a pipe would wait for ever, and a link may lead to what is not its own.

    Args:
        path: The file.
        limit: Bytes, at most.
        offset: Where to begin.

    Returns:
        Empty where there is no regular file, or nothing more in it.
    """
    flags = os.O_RDONLY
    for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        handle = os.open(path, flags)
    except OSError:
        return b""
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return b""
        os.lseek(handle, offset, os.SEEK_SET)
        return os.read(handle, limit)
    except OSError:
        return b""
    finally:
        os.close(handle)


def _plain(value: object, levels: int = _MOST_LEVELS) -> Any:
    """A decoded value with clean texts.

    Raises:
        ValueError: It is nested deeper, or a number larger, than anything that is measured.
    """
    if levels == 0:
        raise ValueError("nested too deeply")
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_plain(item, levels - 1) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): _plain(item, levels - 1) for key, item in value.items()}
    if isinstance(value, int | float) and not (math.isfinite(value) and -_MOST < value < _MOST):
        raise ValueError("no number that is measured")
    return value


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
        room = _MAX_BYTES - self._offset
        data = read_side_file(self._path, room, offset=self._offset)
        self._offset += len(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            record = _plain(json.loads(line, parse_constant=lambda _: None))
        except (ValueError, RecursionError, OverflowError):  # the last: isfinite of a huge int
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
                self.parts[stage] = record["part"]
            case "end" if isinstance(stage, str):
                self.current, self.ends[stage] = None, record
                self.since = time.monotonic()
            case _:
                self.rubbish_lines += 1
