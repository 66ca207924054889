"""Where a log comes from: files, standard input, a run record."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.crash.record import RunRecord, load_record
from envguard.crash.scan import Scanner, marks_of
from envguard.errors import InputError
from envguard.files import is_folder, reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envguard.crash.log import Log
    from envguard.matrix.loader import Matrix

_PIN = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w,-]*\])?\s*(?:===?|@)\s*\S")
_LOCKS = ("pylock", "requirements", "uv.lock", "poetry.lock", "pdm.lock")


def split_words(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tell logs from the words of the subject: pins and lockfiles."""
    subject = tuple(word for word in words if _is_subject(word))
    return tuple(word for word in words if word not in subject), subject


def _is_subject(word: str) -> bool:
    if _PIN.match(word) and not os.path.lexists(word):
        return True
    name = Path(word).name
    return name.startswith(_LOCKS) and name.endswith((".toml", ".txt", ".lock"))


def find_record(names: Sequence[str]) -> RunRecord | None:
    """The run record among the logs named, or None.

    Raises:
        DocumentError: A folder that is named holds no record.
    """
    folders = [Path(name) for name in names if is_folder(name)]
    return load_record(folders[0]) if folders else None


def read_log(names: Sequence[str], matrix: Matrix) -> Log:
    """Scan the logs named, one after the other.

    Args:
        names: Files, or ``-`` for standard input; none at all is an empty log.
        matrix: What to look for.

    Returns:
        One log; its hits carry the names of the files when there are several.

    Raises:
        InputError: A file cannot be read.
    """
    scanner = Scanner(marks_of(matrix))
    for name in names:
        if len(names) > 1:
            scanner.start_file(_shown(name))
        if name == "-":
            scanner.read(sys.stdin.buffer)
        elif is_folder(name):
            for part in load_record(Path(name)).output_parts:
                _read_file(scanner, part)
        else:
            _read_file(scanner, Path(name))
    return scanner.finish(", ".join(map(_shown, names)) or "no log")


def _shown(name: str) -> str:
    return "standard input" if name == "-" else Path(name).name


def _read_file(scanner: Scanner, path: Path) -> None:
    try:
        with path.open("rb") as stream:
            scanner.read(stream)
    except (OSError, ValueError) as err:
        raise InputError(f"{path}: cannot be read: {reason_of(err)}") from err
