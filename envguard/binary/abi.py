"""What mangled C++ names tell: the string ABI, and whether only the stable ABI is used.

libtorch before 2.7 was built with the old ``std::string``; names of functions that take one then
hold the abbreviation ``Ss`` where names of the new ABI hold ``__cxx1112basic_string``.

Source: the Itanium C++ ABI, section 5.1 (mangling); GCC manual, "Dual ABI".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_NEW = (b"7__cxx1112basic_string", b"B5cxx11")
# One token of a mangled name: what is no part of an identifier and yet holds digits or an S.
_TOKEN = re.compile(
    rb"(?P<old>Ss)|S[tabiod]|S[0-9A-Z]*_|T[0-9]*_|L[a-z]n?[0-9]+E|A[0-9]+_|(?P<length>[1-9][0-9]*)|.",
    re.DOTALL,
)
# A symbol of libtorch: of the namespaces c10, at, torch or caffe2, with what the mangling puts
# before them (const, virtual tables, thunks, operators are all behind the namespace).
_TORCH = re.compile(
    rb"_Z(?:T[VTISWC]|GV|GR)?(?:N[rVK]*[RO]?)?(?:3c10|2at|5torch|6caffe2)(?=[0-9A-Z])"
)
_SHIM = re.compile(rb"aoti_torch_|torch_[a-z0-9_]+\Z")


def is_torch_symbol(name: bytes) -> bool:
    """Whether a mangled name belongs to libtorch's C++ interface."""
    return _TORCH.match(name) is not None


def uses_cxx11_string(name: bytes) -> bool | None:
    """Whether a mangled name mentions the new ``std::string`` (True) or the old one (False).

    Returns:
        None when it mentions neither.
    """
    if any(mark in name for mark in _NEW):
        return True
    return False if b"Ss" in name and _mentions_old_string(name) else None


def _mentions_old_string(name: bytes) -> bool:
    """Whether ``Ss`` stands in a mangled name as a type, not inside an identifier."""
    at = 2
    while at < len(name):
        token = _TOKEN.match(name, at)
        if token is None or token["old"]:
            return token is not None
        at = token.end() + int(token["length"] or 0)
    return False


def tell_cxx11_abi(names: Iterable[bytes]) -> bool | None:
    """Which C++ ABI a file speaks to libtorch with, from the symbols that it uses.

    Args:
        names: Mangled names; those of other libraries are passed over.

    Returns:
        None when none of them mentions a string.
    """
    found = None
    for name in names:
        if is_torch_symbol(name):
            kind = uses_cxx11_string(name)
            if kind:
                return True
            found = kind if found is None else found
    return found


def tell_stable_abi(names: Iterable[bytes]) -> bool | None:
    """Whether a file reaches libtorch through the C functions of its stable ABI only.

    Args:
        names: The symbols that the file leaves undefined.

    Returns:
        None when it does not reach libtorch at all.
    """
    uses_shim = False
    for name in names:
        if is_torch_symbol(name):
            return False
        uses_shim = uses_shim or _SHIM.match(name) is not None
    return True if uses_shim else None
