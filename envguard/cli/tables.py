"""Which tables a command uses: the shipped ones, or a folder that the user names."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

from envguard import __version__
from envguard.errors import InputError, MatrixError
from envguard.matrix.loader import Matrix

if TYPE_CHECKING:
    from pathlib import Path


def load_matrix(folder: Path | None, *, is_tried: bool = False) -> Matrix:
    """Load the tables; the patterns of a folder that is new to this user are tried first.

    Args:
        folder: ``--matrix``; None for the shipped ones.
        is_tried: The caller tries the patterns itself.

    Raises:
        InputError: There is no such folder.
        MatrixError: It holds no usable tables, or a pattern that can be made to hang.
    """
    if folder is None:
        return Matrix.load()
    if not os.path.isdir(folder):  # noqa: PTH112 - says no where a folder may not be searched
        raise InputError(f"--matrix: {folder} is no folder")
    matrix = Matrix.load(folder)
    if not is_tried:
        _try_once(matrix, folder)
    return matrix


def _try_once(matrix: Matrix, folder: Path) -> None:
    """Try patterns that are not the shipped ones, unless the same tables were tried before."""
    from envguard.binary.cache import cache_folder
    from envguard.matrix.pattern_cost import try_tables

    place = cache_folder(os.environ) / "tried" / _digest(folder)
    if _is_ours(place):
        return
    try:
        problems = try_tables(matrix)
    except MatrixError:
        return  # said by the command that needs the table
    if problems:
        more = f" ({len(problems)} such patterns)" if len(problems) > 1 else ""
        raise MatrixError(f"--matrix: {problems[0]}{more}")
    with contextlib.suppress(OSError):  # it is tried again the next time
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.touch(mode=0o600)


def _digest(folder: Path) -> str:
    """One hash of all table files, and of the program that would judge them."""
    import hashlib  # only for tables that the user names

    whole = hashlib.sha256(__version__.encode())
    for path in sorted(path for path in folder.rglob("*") if path.suffix in {".toml", ".json"}):
        content = path.read_bytes() if path.is_file() else b""
        whole.update(f"{path.relative_to(folder)}\0{len(content)}\0".encode(errors="replace"))
        whole.update(content)
    return whole.hexdigest()


def _is_ours(place: Path) -> bool:
    """Whether a mark is there that nobody else can have made."""
    for path in (place, place.parent, place.parent.parent):
        try:
            status = path.lstat()
        except OSError:
            return False
        is_owned = not hasattr(os, "getuid") or status.st_uid == os.getuid()
        is_shared = os.name == "posix" and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not is_owned or is_shared or stat.S_ISLNK(status.st_mode):
            return False
    return True
