"""Which compiled files an import or ``torch.ops.load_library`` loads by themselves.

A complete CUDA environment holds many libraries that cannot be linked and need not be: plugins,
optional codecs, all but one of several builds. What has to load is told from the files alone:

* an extension module: it defines ``PyInit_`` and its own name, and carries a suffix that this
  interpreter imports;
* an operator library: it registers operators with torch, or needs libtorch and is not named like
  a library that others need (``lib...``).

Everything else counts only where one of these needs it.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from envguard.binary.library import is_torch_library
from envguard.binary.source import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from envguard.binary.library import Library

_MODULE = re.compile(r"(?P<stem>[^.]+)(?:\.(?P<tag>[^.]+))?\.so")
_TAG = re.compile(r"cpython-(?P<version>[0-9]{2,3}t?)(?:-.+)?")
_REGISTERS = (
    b"_ZN5torch7Library",
    b"_ZN5torch6detail16TorchLibraryInit",
    b"torch_library_init_",
    b"aoti_torch_library_init_",
)
_DIGITS = re.compile(r"[0-9]+")


def loads_by_itself(path: str, library: Library, python_tag: str | None) -> bool:
    """Whether something loads a file by its own name.

    Args:
        path: Where it lies.
        library: Its content.
        python_tag: The interpreter, ``311`` or ``313t``; None when not known.
    """
    base = path.rpartition("/")[2]
    match = _MODULE.fullmatch(base)
    if match is None:
        return False
    if library.has_init:
        return is_importable(match["tag"], python_tag)
    if not any(map(is_torch_library, library.dynamic.needed)):
        return False
    return not base.startswith("lib") or _registers_operators(library)


def is_importable(tag: str | None, python_tag: str | None) -> bool:
    """Whether an interpreter imports modules with a tag: none, ``abi3``, ``cpython-311-...``."""
    if tag is None or tag in {"abi3", "abi3t"}:
        return True
    match = _TAG.fullmatch(tag)
    return match is not None and python_tag in {None, match["version"]}


def _registers_operators(library: Library) -> bool:
    try:
        symbols = list(library.symbols().undefined())
    except UnreadableError:
        return False
    finally:
        library.close()
    return any(symbol.name.startswith(_REGISTERS) for symbol in symbols)


def several_builds(paths: Iterable[str]) -> frozenset[str]:
    """The modules of which a folder, or the folders beside it, hold several builds.

    ``lib/_codec4.so`` and ``lib/_codec5.so`` differ in digits only, as do ``sm90/_C.so`` and
    ``sm100/_C.so``; a package that ships several picks one when it is imported.
    """
    kept = list(paths)
    shapes = {path: _shape(path) for path in kept}
    counts = Counter(shapes.values())
    return frozenset(path for path in kept if counts[shapes[path]] > 1)


def _shape(path: str) -> str:
    """The path with the digits of its last two parts left out, tags aside."""
    folder, _, base = path.rpartition("/")
    parent, _, last = folder.rpartition("/")
    stem, dot, tag = base.partition(".")
    return f"{parent}/{_DIGITS.sub('#', last)}/{_DIGITS.sub('#', stem)}{dot}{tag}"
