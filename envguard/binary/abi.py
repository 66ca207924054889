"""What mangled C++ names tell: the string ABI, and whether only the stable ABI is used.

libtorch before 2.7 was built with the old ``std::string``; names of functions that take one then
hold the abbreviation ``Ss`` where names of the new ABI hold ``__cxx1112basic_string``.

Source: the Itanium C++ ABI, section 5.1 (mangling); GCC manual, "Dual ABI".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.mangled import read_mangled

if TYPE_CHECKING:
    from collections.abc import Iterable

_NEW = (b"7__cxx1112basic_string", b"B5cxx11")
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
    if b"Ss" not in name:
        return None
    found = read_mangled(name.decode("ascii", "replace"))
    return False if found is not None and found.has_old_string else None


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
