"""The compiled files of an environment at one moment, and whether anything has changed since."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.binary.folders import find_compiled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from envguard.binary.folders import FolderMemory
    from envguard.facts.gaps import Gap

Signature = tuple[int, int, int]  # size, modification time in ns, inode
_MOST_PTH = 64 * 1024


@dataclass(frozen=True, slots=True)
class Listed:
    """One compiled file.

    Args:
        path: Where it lies.
        name: Relative to the folder of the environment that holds it.
        signature: Changes when the file does; None when it cannot be looked at.
    """

    path: str
    name: str
    signature: Signature | None


def signature_of(path: str) -> Signature | None:
    """What tells one state of a file or folder from another; None when there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a text path
    except (OSError, ValueError):
        return None
    return (found.st_size, found.st_mtime_ns, found.st_ino)


def list_files(
    folders: Iterable[Path], gaps: list[Gap], memory: FolderMemory | None = None
) -> tuple[Listed, ...]:
    """The compiled files below folders, sorted by path, each once.

    Args:
        folders: The environment's, in the order of ``sys.path``.
        gaps: Folders that cannot be read are added.
        memory: What folders held before.
    """
    found: dict[str, Listed] = {}
    for folder in folders:
        for file in find_compiled(str(folder), gaps, memory=memory):
            if file.path not in found:
                found[file.path] = Listed(file.path, file.name, signature_of(file.path))
    return tuple(sorted(found.values(), key=lambda listed: listed.path))


def all_folders(site_folders: Iterable[Path]) -> tuple[Path, ...]:
    """Folders that exist, each once, with those that their ``.pth`` files add."""
    kept: dict[str, Path] = {}
    pending = list(site_folders)
    for folder in pending:  # grows by one level: a .pth file in an added folder does not count
        real = os.path.realpath(folder)
        if real in kept or not os.path.isdir(real):  # noqa: PTH112 - a text path
            continue
        kept[real] = folder
        if folder in site_folders:
            pending.extend(_added_folders(folder))
    roots = list(kept)
    return tuple(
        path
        for real, path in kept.items()
        if not any(real.startswith(f"{other}/") for other in roots if other != real)
    )


def _added_folders(folder: Path) -> list[Path]:
    """Source: the documentation of Python's ``site`` module."""
    added = []
    for file in sorted(folder.glob("*.pth")):
        try:
            with file.open("rb") as opened:
                text = opened.read(_MOST_PTH).decode("utf-8", "replace")
        except OSError:
            continue
        lines = [line.strip() for line in text.splitlines()]
        added += [
            folder / line
            for line in lines
            if line and not line.startswith(("#", "import ", "import\t")) and "\0" not in line
        ]
    return added


def digest(listing: Iterable[Listed], others: Mapping[str, str]) -> str:
    """One word for a state of the files and of everything else that a result depends on."""
    state = hashlib.sha256()
    for listed in listing:
        state.update(f"{listed.path}\0{listed.signature}\n".encode("utf-8", "surrogateescape"))
    for key, value in sorted(others.items()):
        state.update(f"{key}\0{value}\n".encode("utf-8", "surrogateescape"))
    return state.hexdigest()
