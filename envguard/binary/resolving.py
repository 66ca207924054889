"""Which symbols of a module the loader would not find, and in which order it looks."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from envguard.binary import elf
from envguard.binary.abi import is_torch_symbol, uses_cxx11_string
from envguard.binary.library import is_torch_library
from envguard.binary.source import UnreadableError
from envguard.facts.binary import LinkFault, LinkProblem
from envguard.facts.gaps import Gap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.binary.dynamic import NeededVersion
    from envguard.binary.elf import Image
    from envguard.binary.process import Mapped, Opened, Process
    from envguard.binary.symbols import Symbol


_RELOCATION = struct.Struct("<QQq")
_BLOCK = 4096 * _RELOCATION.size
_MOST = 4_000_000 * _RELOCATION.size
_TABLES = ((elf.DT_RELA, elf.DT_RELASZ), (elf.DT_JMPREL, elf.DT_PLTRELSZ))


def first_relocated(image: Image, wanted: frozenset[int]) -> int | None:
    """Which of some symbols the loader resolves first.

    Python and ctypes ask for immediate binding, so the loader applies ``DT_RELA`` and then
    ``DT_JMPREL``, both in file order, and stops at the first symbol that it does not find.

    Args:
        image: The file.
        wanted: Symbol indexes.

    Returns:
        One of them, or None when no relocation uses any.

    Raises:
        UnreadableError: A table lies outside the file.
    """
    left = _MOST
    for start, length in _TABLES:
        address, size = image.tag(start), min(image.tag(length) or 0, left)
        if address is None or not size:
            continue
        left -= size
        size -= size % _RELOCATION.size
        found = _search(image, image.offset(address), size, wanted)
        if found is not None:
            return found
    return None


def _search(image: Image, offset: int, size: int, wanted: frozenset[int]) -> int | None:
    for start in range(0, size, _BLOCK):
        block = image.source.read(offset + start, min(_BLOCK, size - start))
        for _, info, _ in _RELOCATION.iter_unpack(block):
            symbol: int = info >> 32
            if symbol in wanted:
                return symbol
    return None


PROBE = "link-check"
_NUMBERED = re.compile(r"[A-Za-z]+_[0-9][0-9.]*")
_PYTHON = (b"Py", b"_Py")


def missing_symbols(
    process: Process, opened: Opened, torch_folder: str | None, gaps: list[Gap]
) -> Iterator[LinkProblem]:
    """One problem for each file that lacks symbols, in the order in which they are resolved.

    Args:
        process: The process in which the module was opened.
        opened: What opening it maps; where libraries are missing, only the symbols of a complete
            libtorch are judged.
        torch_folder: The folder of the torch package.
        gaps: Files that could not be read are added.
    """
    if any(is_torch_library(missing.name) for missing in opened.missing):
        return
    try:
        resolver = _Resolver(process, opened, torch_folder)
    except UnreadableError as err:  # one library of the scope is broken: nothing can be told
        gaps.append(Gap(f"symbols of {opened.scope[0].path}", err.reason, PROBE, err.message))
        return
    for mapped in reversed(opened.fresh):
        if mapped.is_system:
            continue
        try:
            problem = resolver.problem_of(mapped)
        except UnreadableError as err:
            gaps.append(Gap(f"symbols of {mapped.path}", err.reason, PROBE, err.message))
            continue
        if problem is not None:
            yield problem


class _Resolver:
    """Looks up symbols where the loader would, in a scope that is fixed for one module."""

    def __init__(self, process: Process, opened: Opened, torch_folder: str | None) -> None:
        self._process = process
        self._opened = opened
        self._own = f"{torch_folder}/" if torch_folder else None
        files = dict.fromkeys((*opened.scope, *process.everywhere))
        self._tables = [mapped.library.symbols() for mapped in files]

    def problem_of(self, mapped: Mapped) -> LinkProblem | None:
        """The problem of one file, or None when all its symbols are found."""
        needs = {need.index: need for need in mapped.library.dynamic.needs}
        missing = {
            symbol.place: symbol
            for symbol in self._candidates(mapped, needs)
            if not self._is_found(symbol, needs)
        }
        first = first_relocated(mapped.library.image(), frozenset(missing)) if missing else None
        if first is None:
            return None
        need = needs.get(missing[first].version)
        provider = self._process.named(need.library) if need else None
        name = missing[first].name.decode("utf-8", "replace")
        return LinkProblem(
            module=self._opened.scope[0].path,
            needed_by=mapped.path,
            fault=LinkFault.MISSING_SYMBOL,
            name=name,
            message=f"{mapped.path}: undefined symbol: {name}"
            + (f", version {need.version}" if need else ""),
            provider=provider.path if provider else None,
            cxx11_abi=_built_for(missing[first], missing),
            others=len(missing) - 1,
        )

    def _candidates(self, mapped: Mapped, needs: dict[int, NeededVersion]) -> Iterator[Symbol]:
        """The symbols of a file that have to be looked up."""
        numbered = {i for i, need in needs.items() if _NUMBERED.fullmatch(need.version)}
        is_torch_own = self._own is not None and mapped.path.startswith(self._own)
        only_torch = bool(self._opened.missing)
        for symbol in mapped.library.symbols().undefined():
            if symbol.is_weak or symbol.version in numbered or symbol.name.startswith(_PYTHON):
                continue
            if is_torch_own and symbol.name.startswith(b"_Z"):
                continue
            if not only_torch or is_torch_symbol(symbol.name):
                yield symbol

    def _is_found(self, symbol: Symbol, needs: dict[int, NeededVersion]) -> bool:
        need = needs.get(symbol.version)
        for place, table in enumerate(self._tables):
            if not table.can_look_up or table.offers(symbol.name, need.version if need else None):
                # Neighbouring symbols tend to have one provider: it is asked first next time.
                self._tables.insert(0, self._tables.pop(place))
                return True
        return False


def _built_for(symbol: Symbol, missing: dict[int, Symbol]) -> bool | None:
    """The C++ ABI of the file, told from the symbol itself or else from the others."""
    for name in (symbol.name, *(other.name for other in missing.values())):
        kind = uses_cxx11_string(name) if is_torch_symbol(name) else None
        if kind is not None:
            return kind
    return None
