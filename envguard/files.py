"""Writing files so that a reader sees the old content or the new, never a part."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


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
