"""How each standard stream of the child is passed through, and what of it is read on the way."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection


_CHUNK = 1 << 16
_SMALL = 256
_USUAL_HANDLES = 1024
_MOST_BEHIND = 8 * 2**20


class Passing(Enum):
    """Ways to pass a stream.

    DIRECT: the child gets the very file; nothing is read.
    TAIL: the child gets the very file, a regular one, whose growth is read beside it.
    PIPE: the child gets a pipe, whose content is copied.
    TERMINAL: the child gets a terminal of its own, so that it sees one, and it is copied.
    """

    DIRECT = "direct"
    TAIL = "tail"
    PIPE = "pipe"
    TERMINAL = "terminal"


@dataclass
class Stream:
    """One output stream.

    Args:
        number: 1 or 2.
        passing: How it is passed.
        child: What the child gets; the number itself for DIRECT and TAIL.
        reader: What is read here; None for DIRECT.
        is_open: More can come.
    """

    number: int
    passing: Passing
    child: int
    reader: int | None = None
    is_open: bool = True
    carry: bytes = field(default=b"", repr=False)

    def take(self, data: bytes) -> bytes:
        """Join new bytes to what was left of the last line; give whole lines back."""
        block = self.carry + data
        cut = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
        if not cut and len(block) > _CHUNK:
            cut = len(block)
        self.carry = block[cut:]
        return block[:cut]


def choose_passing(number: int) -> Passing:
    """How a standard stream should be passed: what it is decides."""
    try:
        mode = os.fstat(number).st_mode
    except OSError:
        return Passing.DIRECT
    if stat.S_ISREG(mode):
        return Passing.TAIL
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        return Passing.PIPE
    return Passing.TERMINAL if os.isatty(number) else Passing.DIRECT


def occupy_standard_streams() -> None:
    """Put nothing where a standard stream is closed, so that no file of ours gets its number.

    A child does not inherit what is put there: for it the stream is closed as it was.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free is this one


def close_all_but(kept: Collection[int]) -> None:
    """Give back every handle but some: what a copy of this process inherited.

    The limit may be a thousand million in a container, so the open ones are listed.
    """
    try:
        numbers = [int(path.name) for path in Path("/dev/fd").iterdir()]
    except (OSError, ValueError):
        numbers = list(range(_USUAL_HANDLES))
    for number in numbers:
        if number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)


def open_streams(*, is_direct: bool = False) -> list[Stream]:
    """Prepare stdout and stderr of a child.

    Two streams that are one file, as after ``2>&1``, stay one, so that their order is kept.

    Args:
        is_direct: Read nothing.
    """
    out = _open_stream(1, is_direct=is_direct)
    if _is_same_file(1, 2) and out.passing is not Passing.DIRECT:
        return [out, Stream(2, out.passing, out.child, None, is_open=False)]
    return [out, _open_stream(2, is_direct=is_direct)]


def _open_stream(number: int, *, is_direct: bool) -> Stream:
    match Passing.DIRECT if is_direct else choose_passing(number):
        case Passing.TAIL:
            return _tail(number)
        case Passing.PIPE:
            reader, writer = os.pipe()
            return Stream(number, Passing.PIPE, writer, reader)
        case Passing.TERMINAL:
            return _terminal(number)
        case Passing.DIRECT:
            return Stream(number, Passing.DIRECT, number, is_open=False)


def _tail(number: int) -> Stream:
    try:
        reader = os.open(f"/dev/fd/{number}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # written to, but not to be read
        return Stream(number, Passing.DIRECT, number, is_open=False)
    is_append = _appends(number)
    position = os.lseek(number, 0, os.SEEK_END if is_append else os.SEEK_CUR)
    os.lseek(reader, position, os.SEEK_SET)
    return Stream(number, Passing.TAIL, number, reader)


def _appends(number: int) -> bool:
    import fcntl

    return bool(fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND)


def _terminal(number: int) -> Stream:
    """A terminal whose output is not processed: the real one does that."""
    import termios

    reader, child = os.openpty()
    with contextlib.suppress(termios.error):
        modes = termios.tcgetattr(number)
        modes[1] &= ~termios.OPOST
        termios.tcsetattr(child, termios.TCSANOW, modes)
    copy_window(number, child)
    return Stream(number, Passing.TERMINAL, child, reader)


def copy_window(source: int, target: int) -> bool:
    """Give a terminal the window size of another; whether that changed anything."""
    import fcntl
    import termios

    try:
        wanted = fcntl.ioctl(source, termios.TIOCGWINSZ, bytes(8))
        if fcntl.ioctl(target, termios.TIOCGWINSZ, bytes(8)) == wanted:
            return False
        fcntl.ioctl(target, termios.TIOCSWINSZ, wanted)
    except OSError:
        return False
    return True


def _is_same_file(first: int, second: int) -> bool:
    try:
        one, two = os.fstat(first), os.fstat(second)
    except OSError:
        return False
    return (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)


def catch_up(stream: Stream) -> int:
    """Keep up with a file that is followed: leave out what grew faster than it can be read.

    Returns:
        Bytes that were left out; a file that was cut short is read from its start.
    """
    if stream.reader is None:
        return 0
    try:
        size = os.fstat(stream.reader).st_size
        place = os.lseek(stream.reader, 0, os.SEEK_CUR)
        behind = size - place - _MOST_BEHIND
        if place > size:
            os.lseek(stream.reader, 0, os.SEEK_SET)
        elif behind > 0:
            os.lseek(stream.reader, behind, os.SEEK_CUR)
    except OSError:
        return 0
    return max(0, behind)


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, _CHUNK)
    except MemoryError:  # small pieces come from what the interpreter holds already
        return os.read(handle, _SMALL)


def read_some(stream: Stream) -> bytes:
    """Read what is there; empty, and the stream closed, at its end.

    A terminal ends with an error instead of an empty read. A file that is followed has no end.
    """
    if stream.reader is None:
        return b""
    try:
        data = _read(stream.reader)
    except OSError:
        data = b""
    if not data and stream.passing is not Passing.TAIL:
        stream.is_open = False
    return data
