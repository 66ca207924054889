"""Files that users name: read within a limit, and written so that no reader sees a part."""

from __future__ import annotations

import contextlib
import os
from typing import IO, TYPE_CHECKING

from envguard.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

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


def take_bounded(file: IO[bytes], limit_bytes: int, *, where: str) -> bytes:
    """Read what is left of an open file, as :func:`read_bounded` does.

    Raises:
        InputError: It holds more than the limit.
        OSError: It cannot be read.
    """
    raw = file.read(limit_bytes + 1)
    if len(raw) > limit_bytes:
        raise InputError(f"{where}: larger than {_size(limit_bytes)}, the most that is read")
    return raw


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


def write_atomically(path: Path, text: str) -> None:
    """Write a file through a temporary one in the same folder.

    A special file (``/dev/stdout``) is written directly. A symbolic link keeps pointing to its
    target, which is replaced.

    Args:
        path: Where to.
        text: Whole content, written as UTF-8.

    Raises:
        OSError: The folder or disk does not take it; a previous file is intact.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        if target.is_dir():
            raise IsADirectoryError(21, "is a directory", str(path))
        target.write_text(text, encoding="utf-8")
        return
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
    import tempfile  # commands that write nothing need not pay for it

    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)  # noqa: PTH101 - a name, not a Path, comes from mkstemp
        os.replace(temporary, target)  # noqa: PTH105 - likewise
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108 - likewise
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
