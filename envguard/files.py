"""Files that users name: read within a limit, and written so that no reader sees a part."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
from pathlib import Path
from typing import IO, NoReturn

from envguard.errors import InputError
from envguard.values import dataclass

_MOST_LINKS = 40  # as many as Linux follows
# A folder is opened to look names up in it, which needs no right to list it.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_STREAM = re.compile(r"/dev/(?:fd/(\d{1,4})|(stdout|stderr))|/proc/self/fd/(\d{1,4})")
_STREAMS = {"stdout": 1, "stderr": 2}
# Devices that are meant when they are named. A look at the name comes first: to open a watchdog
# is to start it.
_SINKS = {"null", "zero", "full"}
_TERMINAL = re.compile(r"tty\w*|console|\d+")

# A reader takes memory for all that it is asked for, however little there is to read.
_STEP_BYTES = 2**18
_UNITS = (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))


def read_bounded(path: Path | str, limit_bytes: int, *, where: str = "") -> bytes:
    """Read a file that came from anywhere.

    What the file system says of its size is not believed: a pipe, a device and a file of
    ``/proc`` say nothing, and a file may grow. One byte more than the limit is asked for.

    Args:
        path: A file, pipe or device.
        limit_bytes: The largest content that is taken.
        where: How messages name it; the path where empty.

    Raises:
        InputError: It cannot be opened or read, is a folder, or holds more than the limit.
    """
    named = where or str(path) or "''"
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a Path takes '' for the folder
            return take_bounded(file, limit_bytes, where=named)
    except (OSError, ValueError) as err:  # ValueError: a NUL or half a character in the name
        raise InputError(f"{named}: cannot be read: {reason_of(err)}") from err


def read_beginning(path: Path | str, most_bytes: int) -> bytes:
    """The beginning of a file that nobody named, but that lies in a folder that is looked through.

    A pipe there would never end, and to open a device may start something: neither is opened.

    Args:
        path: What was found.
        most_bytes: So much of it at most.

    Raises:
        OSError: It cannot be read, or is no regular file.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a text path
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    # It may have become a pipe since.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        return file.read(most_bytes)


def take_bounded(file: IO[bytes], limit_bytes: int, *, where: str) -> bytes:
    """Read what is left of an open file, as :func:`read_bounded` does.

    Raises:
        InputError: It holds more than the limit.
        OSError: It cannot be read.
    """
    pieces, left = [], limit_bytes + 1
    while left and (piece := file.read(min(left, _STEP_BYTES))):
        pieces.append(piece)
        left -= len(piece)
    if not left:
        raise InputError(f"{where}: larger than {_size(limit_bytes)}, the most that is read")
    return b"".join(pieces)


def read_utf8(path: Path | str, limit_bytes: int, *, where: str = "") -> str:
    """Read a text that is promised to be UTF-8; a byte order mark is taken off.

    Raises:
        InputError: As :func:`read_bounded`, or it is not UTF-8.
    """
    raw = read_bounded(path, limit_bytes, where=where)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        problem = f"is not UTF-8 text: byte {err.start}: {err.reason}"
        raise InputError(f"{where or path}: {problem}") from err


def is_file(path: Path | str) -> bool:
    """Whether a name is that of a file; any text that can be none is not."""
    return os.path.isfile(path)  # noqa: PTH113 - Path raises on names that are too long


def is_folder(path: Path | str) -> bool:
    """Whether a name is that of a folder; any text that can be none is not."""
    return os.path.isdir(path)  # noqa: PTH112 - likewise


def reason_of(err: Exception) -> str:
    """What went wrong with a file, in the words of the system, without its name."""
    words = getattr(err, "strerror", None) or str(err)
    return words[:1].lower() + words[1:]


def _size(limit_bytes: int) -> str:
    """A limit as people say it: 64 MiB."""
    for unit, factor in _UNITS:
        if limit_bytes % factor == 0:
            return f"{limit_bytes // factor} {unit}"
    return f"{limit_bytes} bytes"


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file through a temporary one in the same folder.

    A symbolic link keeps pointing to its target, which is replaced, but not a link that another
    user laid into a folder where everybody may write: this follows nobody into a trap. A FIFO, a
    terminal, ``/dev/null`` and the process's own streams (``/dev/stdout``) are written directly,
    no other device is.

    Args:
        path: Where to.
        content: Whole content; text is written as UTF-8.

    Raises:
        OSError: The folder or disk does not take it, or it is no place to write to; a previous
            file is intact.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    stream = _STREAM.fullmatch(str(path)) if os.name == "posix" else None
    if stream is not None:
        _write_stream(stream, data)
    elif os.name == "posix":
        _write_in_place(path, data)
    else:
        _write_by_name(path, data)


def _write_stream(match: re.Match[str], data: bytes) -> None:
    """Write behind what a stream holds: a file that it appends to is not replaced."""
    number = _STREAMS[match[2]] if match[2] else int(match[1] or match[3])
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    _write_all(os.dup(number), data)


def _write_all(handle: int, data: bytes) -> None:
    with os.fdopen(handle, "wb") as file:
        file.write(data)


@dataclass(slots=True)
class _Place:
    """A name in an open folder, all links on the way followed.

    Args:
        folder: Descriptor of the folder.
        name: In it.
        status: Of what stands there; None for nothing.
    """

    folder: int
    name: str
    status: os.stat_result | None

    def is_trusted(self, status: os.stat_result) -> bool:
        """Whether what stands in the folder is no trap of another user.

        Source: ``fs.protected_symlinks`` of Linux, which asks the same where links are followed
        by the kernel, in folders with the sticky bit.
        """
        folder = os.fstat(self.folder)
        if not folder.st_mode & stat.S_IWOTH:
            return True
        return status.st_uid in {os.geteuid(), folder.st_uid}


def _write_in_place(path: Path, data: bytes) -> None:
    place = _locate(path)
    try:
        status = place.status
        if status is None or stat.S_ISREG(status.st_mode):
            _replace(place, data)
        elif stat.S_ISDIR(status.st_mode):
            _refuse(errno.EISDIR, "is a directory", path)
        elif not place.is_trusted(status):
            _refuse(errno.EPERM, "is another user's, where everybody may write", path)
        else:
            _write_special(place, data, path)
    finally:
        os.close(place.folder)


def _locate(path: Path) -> _Place:
    """Open the folder of a path, looking at each link before it is followed.

    Names are looked up from folder to open folder, so nothing can be exchanged between the look
    and the step.
    """
    todo = [part for part in reversed(path.parts) if part != path.anchor] or ["."]
    place = _Place(os.open(path.anchor or ".", _FOLDER), "", None)
    try:
        links = 0
        while todo:
            place.name = todo.pop()
            place.status = _status(place)
            if place.status is not None and stat.S_ISLNK(place.status.st_mode):
                links += 1
                todo += _link_parts(place, place.status, path, links)
            elif todo:
                _enter(place, place.name, _FOLDER | _NO_LINK)
    except BaseException:
        os.close(place.folder)
        raise
    return place


def _status(place: _Place) -> os.stat_result | None:
    try:
        return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _link_parts(place: _Place, status: os.stat_result, path: Path, links: int) -> list[str]:
    """Where a link leads, the last part first."""
    if links > _MOST_LINKS:
        _refuse(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if not place.is_trusted(status):
        _refuse(errno.EPERM, "leads over another user's link, where everybody may write", path)
    target = Path(os.readlink(place.name, dir_fd=place.folder))
    if target.anchor:
        _enter(place, target.anchor, _FOLDER)
    return [part for part in reversed(target.parts) if part != target.anchor] or ["."]


def _enter(place: _Place, name: str, flags: int) -> None:
    inner = os.open(name, flags, dir_fd=place.folder)
    os.close(place.folder)
    place.folder = inner


def _replace(place: _Place, data: bytes) -> None:
    temporary = f".envguard-{os.urandom(8).hex()}"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | _NO_LINK
    handle = os.open(temporary, flags, 0o600, dir_fd=place.folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), _mode(place))
            os.fsync(file.fileno())
        os.replace(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=place.folder)
        raise


def _mode(place: _Place) -> int:
    """The mode of the file that is replaced; a new file's where there is none that is trusted."""
    if place.status is not None and place.is_trusted(place.status):
        return place.status.st_mode & 0o777
    return 0o666 & ~_umask()


def _write_special(place: _Place, data: bytes, path: Path) -> None:
    """Write to a FIFO, a terminal or a sink; whatever else it is, it was named by accident."""
    flags = os.O_WRONLY | os.O_NOCTTY | _NO_LINK
    kind = place.status.st_mode if place.status else 0
    if not (stat.S_ISFIFO(kind) or stat.S_ISCHR(kind)):
        _refuse(errno.ENXIO, "is neither a file nor a stream", path)
    if stat.S_ISFIFO(kind) or place.name in _SINKS:
        _write_all(os.open(place.name, flags, dir_fd=place.folder), data)
        return
    if _TERMINAL.fullmatch(place.name):
        handle = os.open(place.name, flags, dir_fd=place.folder)
        if os.isatty(handle):
            _write_all(handle, data)
            return
        os.close(handle)
    _refuse(errno.ENXIO, "is a device that is no terminal", path)


def _refuse(number: int, words: str, path: Path) -> NoReturn:
    raise OSError(number, words, str(path))


def _write_by_name(path: Path, data: bytes) -> None:
    """Where folders cannot be opened (Windows): by names, with what they lead to replaced."""
    target = path.resolve()
    if target.exists() and not target.is_file():
        if target.is_dir():
            _refuse(errno.EISDIR, "is a directory", path)
        target.write_bytes(data)
        return
    temporary = target.with_name(f".envguard-{os.urandom(8).hex()}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
