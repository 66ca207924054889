"""Tracebacks of Python in a log: the line that ends each, whatever the exception is called.

A class need not be named as exceptions are (``StopIteration``, ``queue.Empty``): what ends a
traceback is known by its place, behind the last frame.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.signatures import SignatureMatch
from envguard.wrappers import strip_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EXCEPTION = "python-exception"
_HEAD = b"Traceback (most recent call last)"
_FRAME = b'File "'
_BOX, _BOX_END = "\u256d".encode(), "\u2570".encode()
# Lines differ in their digits where a logger writes the time before each.
_SHAPE = bytes.maketrans(b"123456789", b"000000000")
# What may stand before a frame: anything longer is no prefix.
_PREFIX = 240
_LINES, _MOST = 600, 2000
_SHOWN = 400
_LAST = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w{0,60}\.){0,6}_{0,2}[A-Z]\w{0,80})(?::(?:\s(?P<message>.{0,300}))?)?\s{0,80}"
)


class TracebackReader:
    """Collects the last lines of tracebacks, block by block."""

    def __init__(self) -> None:
        self._count = 0

    def feed(self, block: bytes, first_line: int) -> Iterator[SignatureMatch]:
        """The lines that end tracebacks of a block.

        Args:
            block: Whole lines; a traceback that is cut by its end is not read.
            first_line: Number of its first line.

        Yields:
            Matches of ``python-exception``, in the order of their lines.
        """
        place = block.find(_HEAD)
        while place >= 0:
            self._count += 1
            if self._count > _MOST:  # of very many the last one of a block is enough
                place = block.rfind(_HEAD)
            start = block.rfind(b"\n", 0, place) + 1
            found = _last_line(block[start : start + 256 * _LINES].split(b"\n", _LINES)[:_LINES])
            if found is not None:
                line = first_line + block.count(b"\n", 0, start) + found[0]
                yield from _match(found[1], line)
            if self._count > _MOST:
                return
            place = block.find(_HEAD, place + len(_HEAD))


def _match(raw: bytes, line: int) -> Iterator[SignatureMatch]:
    text, rank = strip_prefix(raw[: 4 * _SHOWN].decode("utf-8", "replace"))
    clean = "".join(c if c.isprintable() else " " for c in text.strip()[:_SHOWN])
    match = _LAST.fullmatch(clean)
    if match is not None:
        groups = {name: value for name, value in match.groupdict().items() if value is not None}
        yield SignatureMatch(EXCEPTION, line, clean, groups, rank, order=line)


def _last_line(lines: Sequence[bytes]) -> tuple[int, bytes] | None:
    """Which of the lines from a head on ends the traceback, without what stands before each."""
    before = lines[0][: lines[0].find(_HEAD)].strip()
    if before.startswith(_BOX):
        return _behind_box(lines)
    if _is_name(before):
        return _of_notebook(lines, before)
    return _behind_frames(lines)


def _is_name(text: bytes) -> bool:
    return text.replace(b".", b"").replace(b"_", b"").isalnum() and not text.isdigit()


def _behind_box(lines: Sequence[bytes]) -> tuple[int, bytes] | None:
    for index, line in enumerate(lines[:-1]):
        if _BOX_END in line:
            return index + 1, lines[index + 1]
    return None


def _of_notebook(lines: Sequence[bytes], name: bytes) -> tuple[int, bytes] | None:
    """A notebook names the exception before the head and once more behind the frames."""
    for index, line in enumerate(lines[1:], 1):
        if line.startswith(name) and (line.strip() == name or line[len(name) :].startswith(b":")):
            return index, line
    return None


def _behind_frames(lines: Sequence[bytes]) -> tuple[int, bytes] | None:
    """The first line behind the frames that is not indented; whatever a logger puts before it."""
    frame = next((i for i, line in enumerate(lines[1:4], 1) if _FRAME in line[:_PREFIX]), None)
    if frame is None:
        return None
    prefix = lines[frame][: lines[frame].find(_FRAME)]
    is_indented = prefix.endswith(b" ")
    prefix = prefix[:-2] if prefix.endswith(b"  ") else prefix.rstrip(b" ")
    shape, was_frame = prefix.translate(_SHAPE), False
    for index, line in enumerate(lines[frame:], frame):
        if line[: len(prefix)].translate(_SHAPE) != shape:
            continue
        rest = line[len(prefix) :]
        if rest[:1] in {b" ", b"\t", b""} or rest.startswith(_FRAME):
            was_frame = rest.startswith(_FRAME)
        elif was_frame and not is_indented:
            was_frame = False  # the code of a frame, where pasting lost the indentation
        else:
            return index, rest
    return None
