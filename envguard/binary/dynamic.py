"""What one ELF file asks of the loader and offers to others: names, search paths, versions."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from envguard.binary import elf
from envguard.binary.source import UnreadableError
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.binary.elf import Image

_NEED = struct.Struct("<HHIII")  # version, count, file, first auxiliary, next
_NEED_NAME = struct.Struct("<IHHII")  # hash, flags, index, name, next
_DEFINED = struct.Struct("<HHHHIII")  # version, flags, index, count, hash, auxiliary, next
_MOST_VERSIONS = 4096
_WEAK = 2  # VER_FLG_WEAK
_NO_DEFAULT_FOLDERS = 0x800  # DF_1_NODEFLIB


@dataclass(frozen=True, slots=True)
class NeededVersion:
    """A version that a file asks of one of its libraries.

    Args:
        library: As named by the file, e.g. ``libstdc++.so.6``.
        version: E.g. ``GLIBCXX_3.4.30``.
        index: What symbols of that version are marked with.
        is_weak: The loader does not insist.
    """

    library: str
    version: str
    index: int
    is_weak: bool


@dataclass(frozen=True, slots=True)
class Dynamic:
    """The dynamic table of one file, with the names resolved.

    Args:
        needed: Libraries in the order in which the loader maps them.
        soname: Its own name.
        rpath: Folders, searched before ``LD_LIBRARY_PATH``; the loader ignores them where there
            is a runpath.
        runpath: Folders, searched after it.
        skips_default: Neither the cache nor the default folders are searched.
        needs: Versions that it asks for.
        defines: Versions that it offers; None when it has no version table at all.
    """

    needed: tuple[str, ...] = ()
    soname: str | None = None
    rpath: str | None = None
    runpath: str | None = None
    skips_default: bool = False
    needs: tuple[NeededVersion, ...] = ()
    defines: frozenset[str] | None = None


def read_dynamic(image: Image) -> Dynamic:
    """Read the dynamic table.

    Raises:
        UnreadableError: A table lies outside the file or does not end.
    """
    flags = image.tag(elf.DT_FLAGS_1) or 0
    runpath = _string_of(image, elf.DT_RUNPATH)
    return Dynamic(
        needed=tuple(image.string(at) for at in image.tags(elf.DT_NEEDED)),
        soname=_string_of(image, elf.DT_SONAME),
        rpath=_string_of(image, elf.DT_RPATH) if runpath is None else None,
        runpath=runpath,
        skips_default=bool(flags & _NO_DEFAULT_FOLDERS),
        needs=tuple(_needs(image)),
        defines=_defines(image),
    )


def _string_of(image: Image, tag: int) -> str | None:
    at = image.tag(tag)
    return None if at is None else image.string(at)


def _needs(image: Image) -> Iterator[NeededVersion]:
    at, entries = image.tag(elf.DT_VERNEED), image.tag(elf.DT_VERNEEDNUM) or 0
    offset = None if at is None else image.offset(at)
    seen = 0
    while offset is not None and entries > 0:
        _, count, file, first, following = _NEED.unpack(image.source.read(offset, _NEED.size))
        library, inner = image.string(file), offset + first
        for _ in range(count):
            seen = _count(seen)
            _, flags, index, name, step = _NEED_NAME.unpack(
                image.source.read(inner, _NEED_NAME.size)
            )
            yield NeededVersion(library, image.string(name), index, bool(flags & _WEAK))
            inner += step
        seen, entries = _count(seen), entries - 1
        offset = offset + following if following else None


def _defines(image: Image) -> frozenset[str] | None:
    found = defined_versions(image)
    return None if found is None else frozenset(found.values())


def defined_versions(image: Image) -> dict[int, str] | None:
    """The versions that a file offers, by the index that marks their symbols.

    Returns:
        None when it has no version table; the loader then takes any symbol.

    Raises:
        UnreadableError: The table lies outside the file or does not end.
    """
    at, entries = image.tag(elf.DT_VERDEF), image.tag(elf.DT_VERDEFNUM) or 0
    if at is None:
        return None
    offset, found = image.offset(at), {}
    for seen in range(entries):
        _count(seen)
        head = _DEFINED.unpack(image.source.read(offset, _DEFINED.size))
        name = struct.unpack("<I", image.source.read(offset + head[5], 4))[0]
        found[head[2]] = image.string(name)
        if not head[6]:
            break
        offset += head[6]
    return found


def _count(seen: int) -> int:
    if seen >= _MOST_VERSIONS:
        raise UnreadableError(f"more than {_MOST_VERSIONS} symbol versions")
    return seen + 1
