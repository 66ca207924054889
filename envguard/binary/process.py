"""A process as the loader builds it: which files it maps for an extension module, and from where.

The rules are those of the GNU C library: a library is taken if one of that name is mapped
already; else it is looked for in the DT_RPATH of the file that asks and of those that loaded it,
in ``LD_LIBRARY_PATH``, in the DT_RUNPATH of the file that asks, in the cache and in the default
folders. DT_RPATH does not count in a file that has a DT_RUNPATH.

Source: ``elf/dl-load.c`` and ``elf/dl-deps.c`` of the GNU C library, and ld.so(8). Left out: the
``glibc-hwcaps`` folders, which hold the same libraries built for newer processors, and empty
elements of ``LD_LIBRARY_PATH``, which mean a working folder that is not known.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from envguard.binary.dynamic import Dynamic
from envguard.binary.library import Library
from envguard.binary.source import UnreadableError
from envguard.facts.binary import FoundBy
from envguard.facts.gaps import GapReason
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from envguard.binary.ldcache import System
    from envguard.binary.library import Identity, Libraries

_MOST_MAPPED = 4096


@dataclass(eq=False, slots=True)
class Mapped:
    """A file that the loader has mapped.

    Args:
        path: As the loader names it in its messages: the folder as written, not normalised.
        library: Its content.
        found_by: The rule that found it.
        loader: The file that asked for it.
    """

    path: str
    library: Library
    found_by: FoundBy
    loader: Mapped | None = None

    @property
    def origin(self) -> str:
        """What ``$ORIGIN`` stands for in its search paths."""
        return os.path.dirname(self.path)  # noqa: PTH120 - the loader does not normalise either

    @property
    def is_system(self) -> bool:
        """Whether it was found where the system keeps its libraries."""
        return self.found_by in {FoundBy.CACHE, FoundBy.DEFAULT}


class MissingLibrary(NamedTuple):
    """A library that the loader does not find, or cannot use."""

    name: str
    needed_by: Mapped | None
    unusable: str = ""


@dataclass(frozen=True, slots=True)
class Opened:
    """What ``dlopen`` of one file maps.

    Args:
        scope: The file and everything that it needs, breadth first; symbols are looked up here.
        fresh: Those of them that were not mapped before.
        missing: Libraries that are not found, in the loader's order.
    """

    scope: tuple[Mapped, ...]
    fresh: tuple[Mapped, ...]
    missing: tuple[MissingLibrary, ...]


class Process:
    """Files mapped so far, by every name that the loader knows them by.

    Args:
        libraries: Shared by all processes of one examination.
        system: The system's own libraries.
        environ: For ``LD_LIBRARY_PATH`` and ``LD_PRELOAD``.
    """

    def __init__(self, libraries: Libraries, system: System, environ: Mapping[str, str]) -> None:
        self.libraries = libraries
        self.system = system
        self.environ = environ
        self.everywhere: list[Mapped] = []
        self.fallbacks: Mapping[str, str] = {}
        self._main: Mapped | None = None
        self._names: dict[str, Mapped] = {}
        self._files: dict[Identity, Mapped] = {}

    def branch(self) -> Process:
        """A copy in which something can be opened without changing this one."""
        copy = Process(self.libraries, self.system, self.environ)
        copy.everywhere, copy.fallbacks = list(self.everywhere), self.fallbacks
        copy._main, copy._names, copy._files = self._main, dict(self._names), dict(self._files)
        return copy

    def named(self, name: str) -> Mapped | None:
        """The mapped file that answers to a library name, or None."""
        return self._names.get(name)

    def start(self, executable: str | None, needed: tuple[str, ...]) -> None:
        """Begin with the program; what it needs is visible to everything opened later.

        Args:
            executable: The interpreter; None when not known.
            needed: Libraries that every program has.
        """
        library = self.libraries.get(executable) if executable else None
        if executable and isinstance(library, Library):
            # $ORIGIN of a program is where it really lies, not where a link to it does.
            self._main = Mapped(os.path.realpath(executable), library, FoundBy.LOADED)
            self._publish(self._open(self._main))
        preloads = self.environ.get("LD_PRELOAD", "").replace(":", " ").split()
        for name in (*preloads, *needed):
            found = self._map(name, self._main)
            if isinstance(found, Mapped):
                self._publish(self._open(found))

    def open(self, path: str, *, is_global: bool = False) -> Opened | None:
        """Map a file and everything that it needs.

        Args:
            path: Absolute path.
            is_global: Its symbols are visible to everything opened later (``RTLD_GLOBAL``).

        Returns:
            None when the file itself cannot be read.
        """
        identity, library = self.libraries.identity(path), self.libraries.get(path)
        if identity is None or not isinstance(library, Library):
            return None
        root = self._files.get(identity) or Mapped(path, library, FoundBy.LOADED, self._main)
        opened = self._open(root)
        if is_global:
            self._publish(opened)
        return opened

    def _publish(self, opened: Opened) -> None:
        self.everywhere.extend(m for m in opened.scope if m not in self.everywhere)

    def _open(self, root: Mapped) -> Opened:
        before = frozenset(self._files)
        self._add(root)
        scope, missing, seen = [root], [], {id(root)}
        for mapped in scope:  # grows while it is walked
            for name in mapped.library.dynamic.needed:
                found = self._names.get(name) or self._map(name, mapped)
                if isinstance(found, MissingLibrary):
                    missing.append(found)
                elif id(found) not in seen and len(scope) < _MOST_MAPPED:
                    seen.add(id(found))
                    scope.append(found)
        identity = self.libraries.identity
        fresh = tuple(mapped for mapped in scope if identity(mapped.path) not in before)
        return Opened(tuple(scope), fresh, tuple(missing))

    def _add(self, mapped: Mapped, name: str | None = None) -> None:
        """Let a file answer to its names."""
        for known in (name, mapped.library.dynamic.soname):
            if known:
                self._names.setdefault(known, mapped)
        identity = self.libraries.identity(mapped.path)
        if identity is not None:
            self._files.setdefault(identity, mapped)

    def _map(self, name: str, loader: Mapped | None) -> Mapped | MissingLibrary:
        for path, found_by in self.candidates(name, loader):
            identity = self.libraries.identity(path)
            if identity is None:
                continue
            mapped = self._files.get(identity)
            if mapped is None:
                library = self.libraries.get(path)
                if isinstance(library, UnreadableError) and not _is_passed_over(library):
                    return MissingLibrary(name, loader, f"{path}: {_unusable_words(library)}")
                if not isinstance(library, Library) or library.machine != self.system.machine:
                    continue
                mapped = Mapped(path, library, found_by, loader)
            self._add(mapped, name)
            return mapped
        return MissingLibrary(name, loader)

    def candidates(self, name: str, loader: Mapped | None) -> Iterator[tuple[str, FoundBy]]:
        """Every path where the loader would look for a library, in its order.

        Args:
            name: As in DT_NEEDED.
            loader: The file that needs it.
        """
        if "/" in name:
            yield self._expand(name, loader), FoundBy.LOADED
            return
        dynamic = loader.library.dynamic if loader else Dynamic()
        if dynamic.runpath is None:
            for asker in _chain(loader, self._main):
                for folder in self._folders(asker.library.dynamic.rpath, asker):
                    yield f"{folder}/{name}", FoundBy.RPATH
        stated = self.environ.get("LD_LIBRARY_PATH", "").replace(";", ":")
        for folder in self._folders(stated, self._main):
            yield f"{folder}/{name}", FoundBy.LD_LIBRARY_PATH
        for folder in self._folders(dynamic.runpath, loader):
            yield f"{folder}/{name}", FoundBy.RUNPATH
        if not dynamic.skips_default:
            if name in self.system.cache:
                yield self.system.cache[name], FoundBy.CACHE
            for folder in self.system.folders:
                yield f"{folder}/{name}", FoundBy.DEFAULT
        if name in self.fallbacks:
            yield self.fallbacks[name], FoundBy.PRELOAD

    def _folders(self, path: str | None, asker: Mapped | None) -> list[str]:
        parts = [part for part in (path or "").split(":") if part]
        return [self._expand(part, asker).rstrip("/") or "/" for part in parts]

    def _expand(self, text: str, asker: Mapped | None) -> str:
        if "$" not in text:
            return text
        values = {
            "ORIGIN": asker.origin if asker else "",
            "LIB": self.system.lib,
            "PLATFORM": self.system.machine,
        }
        for word, value in values.items():
            text = text.replace(f"${{{word}}}", value).replace(f"${word}", value)
        return text


def _chain(loader: Mapped | None, main: Mapped | None) -> Iterator[Mapped]:
    """The files whose DT_RPATH counts: who asks, who loaded that one, at last the program."""
    asker = loader
    while asker is not None and asker is not main:
        yield asker
        asker = asker.loader
    if main is not None:
        yield main


def _is_passed_over(err: UnreadableError) -> bool:
    """Whether the loader goes on looking: files of another word size are no error to it."""
    return "32-bit" in err.message or err.reason is GapReason.ABSENT


def _unusable_words(err: UnreadableError) -> str:
    if err.message == "empty" or err.message.startswith("truncated"):
        return "file too short"
    if err.reason is GapReason.FORBIDDEN:
        return "cannot open shared object file: Permission denied"
    return "invalid ELF header"
