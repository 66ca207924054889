"""The system's libraries as the loader knows them: ``/etc/ld.so.cache`` and default folders."""

from __future__ import annotations

import os
import struct
from dataclasses import field
from pathlib import Path

from envguard.binary.source import FileSource, UnreadableError
from envguard.values import dataclass

_MAGIC = b"glibc-ld.so.cache1.1"
_OLD_MAGIC, _OLD_HEADER, _OLD_ENTRY = b"ld.so-1.7.0", 16, 12
_HEADER = struct.Struct("<20sII20x")  # magic, entries, bytes of strings
_ENTRY = struct.Struct("<IIIIQ")  # flags, name, path, unused, hardware capabilities
_MOST_BYTES = 32 * 1024 * 1024
# Low byte: a library of the GNU C library's ABI; the next: which processor's.
_FLAGS = {"x86_64": 0x0303, "aarch64": 0x0A03, "ppc64le": 0x0503, "riscv64": 0x0F03}
_TRIPLES = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}


@dataclass(frozen=True, slots=True)
class System:
    """What the loader finds without being told a path.

    Args:
        root: Folder that holds ``etc``, ``lib`` and ``usr``.
        machine: The processor whose libraries count.
        cache: Library name -> path.
        folders: Searched after the cache.
        lib: What ``$LIB`` stands for in a search path.
    """

    root: Path
    machine: str
    cache: dict[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    lib: str = "lib64"


def read_system(machine: str, root: Path = Path("/")) -> System:
    """Read the loader's cache; without one, or with a broken one, the default folders remain."""
    try:
        with FileSource(str(root / "etc/ld.so.cache")) as source:
            cache = parse_cache(source.read_upto(0, min(source.size, _MOST_BYTES)), machine)
    except UnreadableError:
        cache = {}
    triple = _TRIPLES.get(machine, "")
    is_multiarch = bool(triple) and (root / "lib" / triple).is_dir()
    names = (f"lib/{triple}", f"usr/lib/{triple}", "lib", "usr/lib")
    folders = names if is_multiarch else ("lib64", "usr/lib64", "lib", "usr/lib")
    return System(
        root=root,
        machine=machine,
        cache={name: str(root / path.lstrip("/")) for name, path in cache.items()},
        folders=tuple(os.path.join(root, name) for name in folders),  # noqa: PTH118 - as the loader prints it
        lib=f"lib/{triple}" if is_multiarch else "lib64",
    )


def parse_cache(data: bytes, machine: str) -> dict[str, str]:
    """Read ``/etc/ld.so.cache``.

    Args:
        data: Whole file, in the format of glibc 2.2 or newer.
        machine: The processor whose libraries count.

    Returns:
        Library name -> path; of several builds for newer processors the plain one.

    Raises:
        UnreadableError: Another format, or truncated.

    Source: ``sysdeps/generic/dl-cache.h`` of the GNU C library.
    """
    start = _new_part(data)
    if len(data) < start + _HEADER.size or not data.startswith(_MAGIC, start):
        raise UnreadableError("not a cache of the GNU loader")
    _, count, _ = _HEADER.unpack_from(data, start)
    first = start + _HEADER.size
    if first + count * _ENTRY.size > len(data):
        raise UnreadableError(f"{count} entries in {len(data)} bytes")
    wanted = _FLAGS.get(machine)
    found: dict[str, str] = {}
    special: dict[str, str] = {}
    entries = data[first : first + count * _ENTRY.size]
    for flags, name, path, _, hardware in _ENTRY.iter_unpack(entries):
        if flags == wanted:
            into = special if hardware else found
            into.setdefault(_text(data, start + name), _text(data, start + path))
    return {**special, **found}


def _new_part(data: bytes) -> int:
    """Where the new format begins; glibc before 2.32 puts the old one before it."""
    if not data.startswith(_OLD_MAGIC) or len(data) < _OLD_HEADER:
        return 0
    count = struct.unpack_from("<I", data, 12)[0]
    end: int = _OLD_HEADER + count * _OLD_ENTRY
    return (end + 7) // 8 * 8


def _text(data: bytes, at: int) -> str:
    end = data.find(b"\0", at)
    if end < 0:
        raise UnreadableError(f"string {at} does not end")
    return os.fsdecode(data[at:end])
