"""Reads one compiled file: every part that can be read is, every other one becomes a gap."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from envguard.binary.abi import tell_cxx11_abi, tell_stable_abi
from envguard.binary.dynamic import Dynamic, read_dynamic
from envguard.binary.elf import MAGIC, Image
from envguard.binary.fatbin import MAGIC as FATBIN_MAGIC
from envguard.binary.fatbin import GpuCode, read_fatbin_file, read_gpu_code
from envguard.binary.library import is_torch_library, tell_cuda_major
from envguard.binary.source import UnreadableError
from envguard.binary.symbols import SymbolTable
from envguard.facts.binary import CompiledFile
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.versions import CodeTarget

if TYPE_CHECKING:
    from collections.abc import Callable

    from envguard.binary.source import ByteSource

T = TypeVar("T")

PROBE = "binary"
_ARCH_LIBRARY = "libtorch_python.so"
_TARGET = rb"(?:sm|compute)_[0-9]{2,3}[af]?"
# Compilers put a piece of another text, which no NUL ends, right before it (torch 2.8 to 2.10).
# One target there could be the end of a sentence, several are the list.
_ARCH_STRING = re.compile(
    rb"(?:(?<![^\0])%(t)b(?: %(t)b){0,99}|%(t)b(?: %(t)b){1,99})(?=\0)" % {b"t": _TARGET}
)
_MOST_CONSTANTS = 64 * 1024 * 1024
_MOST_DEFINED = 50_000
_OTHER_FORMATS = (
    (b"MZ", "a Windows module, which envguard does not read"),
    (b"\xcf\xfa\xed\xfe", "a macOS module, which envguard does not read"),
    (b"\xca\xfe\xba\xbe", "a macOS module, which envguard does not read"),
    (b"!<arch>\n", "a static archive, which no program loads"),
    (b"version https://git-lfs", "a Git LFS pointer: the file itself was not fetched"),
)


class Names(NamedTuple):
    """The symbols of a file that say how it speaks to libtorch."""

    cxx11_abi: bool | None
    stable_abi: bool | None


def read_compiled(source: ByteSource, path: str, *, with_symbols: bool = True) -> CompiledFile:
    """Read what a compiled file holds.

    Args:
        source: Its bytes.
        path: Its name in the result.
        with_symbols: Look at its symbols too, which tell the C++ ABI.
    """
    gaps: list[Gap] = []
    head = _read_or_gap(lambda: source.read_upto(0, 32), "file", gaps)
    if head is None:
        return CompiledFile(path, gaps=tuple(gaps))
    if head.startswith(FATBIN_MAGIC.to_bytes(4, "little")):
        code = _read_or_gap(lambda: read_fatbin_file(source), "cubin", gaps)
        return _assemble(path, None, Dynamic(), code, Names(None, None), gaps)
    if not head.startswith(MAGIC):
        words = next((w for mark, w in _OTHER_FORMATS if head.startswith(mark)), "")
        words = words or ("not an ELF file" if head else "empty")
        return CompiledFile(path, gaps=(Gap("file", GapReason.UNREADABLE, PROBE, words),))
    image = _read_or_gap(lambda: Image(source), "file", gaps)
    return (
        CompiledFile(path, gaps=tuple(gaps))
        if image is None
        else _read_elf(image, path, gaps, with_symbols=with_symbols)
    )


def _read_elf(image: Image, path: str, gaps: list[Gap], *, with_symbols: bool) -> CompiledFile:
    dynamic = _read_or_gap(lambda: read_dynamic(image), "needed", gaps)
    code = _read_or_gap(lambda: read_gpu_code(image), "cubin", gaps)
    names = Names(None, None)
    if with_symbols and dynamic is not None:
        names = _read_or_gap(lambda: _read_names(image, dynamic), "cxx11_abi", gaps) or names
    return _assemble(path, image, dynamic, code, names, gaps)


def _assemble(
    path: str,
    image: Image | None,
    dynamic: Dynamic | None,
    code: GpuCode | None,
    names: Names,
    gaps: list[Gap],
) -> CompiledFile:
    known = dynamic or Dynamic()
    base = path.rpartition("/")[2]
    flags = None
    if image is not None and base == _ARCH_LIBRARY:
        flags = _read_or_gap(lambda: read_arch_flags(image), "arch_flags", gaps)
    return CompiledFile(
        path=path,
        cubin=None if code is None else code.cubin,
        ptx=None if code is None else code.ptx,
        needed=None if dynamic is None else dynamic.needed,
        cxx11_abi=names.cxx11_abi,
        cuda_major=tell_cuda_major(
            known.soname or base, known.needed, code.ptx_version if code else None
        ),
        gaps=tuple(gaps),
        machine=None if image is None else image.machine,
        soname=known.soname,
        glibc=newest_version(known, "GLIBC_"),
        glibcxx=newest_version(known, "GLIBCXX_"),
        stable_abi=names.stable_abi,
        arch_flags=flags,
    )


def _read_or_gap(read: Callable[[], T], fact: str, gaps: list[Gap]) -> T | None:
    try:
        return read()
    except UnreadableError as err:
        gaps.append(Gap(fact, err.reason, PROBE, err.message))
        return None


def _read_names(image: Image, dynamic: Dynamic) -> Names:
    """What the undefined symbols tell; for libtorch's own first library, the defined ones."""
    table = SymbolTable(image)
    undefined = [symbol.name for symbol in table.undefined()]
    abi = tell_cxx11_abi(undefined)
    if abi is None and is_torch_library(dynamic.soname or ""):
        abi = tell_cxx11_abi(table.defined_names(_MOST_DEFINED))
    return Names(abi, tell_stable_abi(undefined))


def newest_version(dynamic: Dynamic, prefix: str) -> str | None:
    """The newest version with a prefix that a file asks for: ``2.28`` of ``GLIBC_2.28``."""
    texts = [n.version.removeprefix(prefix) for n in dynamic.needs if n.version.startswith(prefix)]
    numbered = [(key, text) for text in texts if (key := _numbers(text))]
    return max(numbered)[1] if numbered else None


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(".")
    return tuple(map(int, parts)) if all(p.isascii() and p.isdigit() for p in parts) else ()


def read_arch_flags(image: Image) -> tuple[CodeTarget, ...]:
    """The targets that ``torch.cuda.get_arch_list()`` prints, a text inside libtorch_python.

    Returns:
        In the build's own order; empty for a build without CUDA.

    Raises:
        UnreadableError: The file's constants lie outside it.
    """
    found: list[bytes] = []
    for section in image.sections(b".rodata"):
        if section.size > _MOST_CONSTANTS:
            raise UnreadableError(f"constants of {section.size} bytes")
        found += _ARCH_STRING.findall(image.source.read(section.offset, section.size))
    longest = max(found, key=len, default=b"")
    return tuple(CodeTarget.parse(word) for word in longest.decode("ascii").split())
