"""Finds the compiled files below a folder."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from envguard.facts.gaps import Gap, GapReason
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED_OBJECT = re.compile(r".+\.so(?:\.[0-9]+)*")
_FOREIGN = (".pyd", ".dll", ".dylib")
# Neither holds what a program loads: bytecode, C++ headers, packages of npm.
_PASSED_OVER = frozenset({"__pycache__", "include", "node_modules", ".git"})
_MOST_FOLDERS = 200_000
_SETTLED_NS = 2_000_000_000  # file systems date in steps of up to two seconds
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


def is_text(path: str) -> bool:
    """Whether a path can be printed; file names may hold any bytes."""
    return path.isascii() or as_text(path) == path


def as_text(path: str) -> str:
    """A path with what is no text in it replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def find_compiled(
    folder: str,
    gaps: list[Gap],
    *,
    with_foreign: bool = False,
    memory: FolderMemory | None = None,
    follows_links: bool = True,
) -> Iterator[FoundFile]:
    """The compiled files below a folder, in no order.

    Links to files are followed. Links to folders are followed as an interpreter would, each real
    folder once, so that a link that leads back up ends; or not at all: what they lead to inside
    the folder is found anyway, and what lies outside (``root`` and ``cwd`` of a process in
    ``/proc``) was not asked for.

    Args:
        folder: Where to begin.
        gaps: Folders that cannot be read are added.
        with_foreign: Name modules of Windows and macOS too.
        memory: What folders held before; spares reading those that have not changed.
        follows_links: Look into folders that links lead to.
    """
    root = folder.rstrip("/") or "/"
    pending, left = [root], _MOST_FOLDERS
    visited = _Visited(os.path.realpath(root))
    while pending:
        current = pending.pop()
        left -= 1
        if left < 0:
            gaps.append(Gap(f"files below {root}", GapReason.UNREADABLE, PROBE, "too many folders"))
            return
        held = memory.recall(current) if memory else None
        if held is None:
            time_ns = _settled_time_ns(current) if memory else 0
            held = _read_folder(current, time_ns, gaps, with_foreign=with_foreign)
        if memory:
            memory.now[current] = held
        for name in held.files:
            path = f"{current}/{name}"
            if is_text(path):
                yield FoundFile(path, path[len(root) :].lstrip("/"))
            else:
                words = "its name is not text"
                gaps.append(Gap(f"file {as_text(path)}", GapReason.UNREADABLE, PROBE, words))
        pending.extend(f"{current}/{name}" for name in held.folders)
        for name in held.links:
            link = f"{current}/{name}"
            if follows_links:
                pending.extend([link] if visited.is_new(os.path.realpath(link)) else [])
            elif not visited.covers(os.path.realpath(link)):
                words = "a link that leads out of the folder"
                gaps.append(Gap(f"files in {as_text(link)}", GapReason.NOT_ASKED, PROBE, words))


class FolderContent(NamedTuple):
    """What one folder holds.

    Args:
        time_ns: Its modification time; 0 when that is too recent to tell later changes by.
        folders: Folders to look into.
        links: Links to folders.
        files: Compiled files.
    """

    time_ns: int
    folders: list[str]
    links: list[str]
    files: list[str]


@dataclass(slots=True)
class FolderMemory:
    """What folders held before and hold now, so that unchanged ones are not read again.

    A folder's time changes when something is added to it, removed or renamed; that a file in it
    changes is seen at the file itself.

    Args:
        before: Path -> :class:`FolderContent` as JSON, of an earlier run.
        now: Path -> what it holds.
    """

    before: Mapping[str, object] = field(default_factory=dict)
    now: dict[str, FolderContent] = field(default_factory=dict)

    def recall(self, folder: str) -> FolderContent | None:
        """What an unchanged folder holds; None when it has to be read."""
        entry = self.before.get(folder)
        if not isinstance(entry, list) or len(entry) != len(FolderContent._fields) or not entry[0]:
            return None
        try:
            unchanged = os.stat(folder).st_mtime_ns == entry[0]  # noqa: PTH116 - a text path
        except OSError:
            return None
        return FolderContent(*entry) if unchanged else None


def _settled_time_ns(folder: str) -> int:
    try:
        found = os.stat(folder).st_mtime_ns  # noqa: PTH116 - a text path
    except OSError:
        return 0
    return found if time.time_ns() - found > _SETTLED_NS else 0


def _read_folder(
    folder: str, time_ns: int, gaps: list[Gap], *, with_foreign: bool
) -> FolderContent:
    held = FolderContent(time_ns, [], [], [])
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                _sort(entry, held, with_foreign=with_foreign)
    except OSError as err:
        reason = GapReason.FORBIDDEN if isinstance(err, PermissionError) else GapReason.UNREADABLE
        gaps.append(Gap(f"files in {as_text(folder)}", reason, PROBE, err.strerror or str(err)))
        return FolderContent(0, [], [], [])
    return held


def _sort(entry: os.DirEntry[str], held: FolderContent, *, with_foreign: bool) -> None:
    name = entry.name
    if is_compiled(name, with_foreign=with_foreign):
        held.files.append(name)
    elif name not in _PASSED_OVER:
        try:
            if entry.is_dir():
                (held.links if entry.is_symlink() else held.folders).append(name)
        except OSError:  # a link that goes in circles
            return


class _Visited:
    """Real folders that are looked into, with all below them.

    Args:
        root: The first one.
    """

    def __init__(self, root: str) -> None:
        self._roots: set[str] = set()
        self._above: set[str] = set()
        self._add(root)

    def covers(self, target: str) -> bool:
        """Whether a real folder is, or lies below, one of them."""
        return target in self._roots or any(path in self._roots for path in _parents(target))

    def is_new(self, target: str) -> bool:
        """Whether a folder is none of them, none below and none above one; it is one then."""
        if target in self._above or self.covers(target):
            return False
        self._add(target)
        return True

    def _add(self, root: str) -> None:
        self._roots.add(root)
        self._above.update(_parents(root))


def _parents(path: str) -> Iterator[str]:
    """The folders that a real path lies in, without the path itself."""
    while path not in {"", "/"}:
        path = path.rpartition("/")[0] or "/"
        yield path
