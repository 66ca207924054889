"""Finds the compiled files below a folder."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.facts.gaps import Gap, GapReason

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED_OBJECT = re.compile(r".+\.so(?:\.[0-9]+)*")
_FOREIGN = (".pyd", ".dll", ".dylib")
# Neither holds what a program loads: bytecode, C++ headers, packages of npm.
_PASSED_OVER = frozenset({"__pycache__", "include", "node_modules", ".git"})
_MOST_FOLDERS = 200_000
PROBE = "binary"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file whose name says that it is compiled.

    Args:
        path: Where it lies, below the folder as given.
        name: Its path relative to that folder, with slashes.
    """

    path: str
    name: str


def is_compiled(name: str, *, with_foreign: bool = False) -> bool:
    """Whether a file name is that of a shared object (or of a Windows or macOS module)."""
    if ".so" in name and SHARED_OBJECT.fullmatch(name):
        return True
    return with_foreign and is_foreign(name)


def is_foreign(name: str) -> bool:
    """Whether a file name is that of a Windows or macOS module or library."""
    return name.lower().endswith(_FOREIGN)


def find_compiled(
    folder: str, gaps: list[Gap], *, with_foreign: bool = False
) -> Iterator[FoundFile]:
    """The compiled files below a folder, in no order.

    Links to files are followed; links to folders too, each real folder once, so that a link that
    leads back up ends.

    Args:
        folder: Where to begin.
        gaps: Folders that cannot be read are added.
        with_foreign: Name modules of Windows and macOS too.
    """
    root = folder.rstrip("/") or "/"
    pending, visited, left = [root], {os.path.realpath(root)}, _MOST_FOLDERS
    while pending:
        current = pending.pop()
        left -= 1
        if left < 0:
            gaps.append(Gap(f"files below {root}", GapReason.UNREADABLE, PROBE, "too many folders"))
            return
        for entry in _entries(current, gaps):
            if is_compiled(entry.name, with_foreign=with_foreign):
                yield FoundFile(entry.path, entry.path[len(root) :].lstrip("/"))
            elif _leads_on(entry, visited):
                pending.append(entry.path)


def _entries(folder: str, gaps: list[Gap]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as err:
        reason = GapReason.FORBIDDEN if isinstance(err, PermissionError) else GapReason.UNREADABLE
        gaps.append(Gap(f"files in {folder}", reason, PROBE, err.strerror or str(err)))
        return []


def _leads_on(entry: os.DirEntry[str], visited: set[str]) -> bool:
    """Whether an entry is a folder to look into; through a link only if it is a new one."""
    try:
        if entry.name in _PASSED_OVER or not entry.is_dir():
            return False
        if not entry.is_symlink():
            return True
        target = os.path.realpath(entry.path)
    except OSError:
        return False
    is_new = not any(target == seen or target.startswith(f"{seen}/") for seen in visited)
    visited.add(target)
    return is_new
