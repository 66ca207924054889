"""One search for many texts: a pattern shaped like a tree, and keys of lines that look alike."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Digits, bars and blanks do not tell whether a line holds a text that is searched for: lines that
# differ in these only are looked at once. No searched text may rest on them.
NOISE = bytes(c for c in range(256) if c >= 0x80 or chr(c) in "0123456789#|.= >-+%,:")
_END = -1

_Tree = dict[int, "_Tree"]


def build_search(texts: Iterable[bytes]) -> re.Pattern[bytes] | None:
    """A pattern that finds the first place of any of the texts; None when there are none.

    The texts share their beginnings as in a tree, which the pattern engine walks several times
    faster than a plain list of alternatives.
    """
    tree: _Tree = {}
    for text in texts:
        node = tree
        for byte in text:
            node = node.setdefault(byte, {})
        node[_END] = {}
    return re.compile(_pattern(tree)) if tree else None


def _pattern(node: _Tree) -> bytes:
    if _END in node:  # a shorter text ends here: longer ones add nothing
        return b""
    branches = [re.escape(bytes([byte])) + _pattern(below) for byte, below in node.items()]
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"


def keys_of(block: bytes) -> list[bytes]:
    """A key for each line of a block; lines that differ in digits and bars share one."""
    return block.translate(None, NOISE).split(b"\n")


class SeenLines:
    """Keys of lines that hold nothing, within a limit of memory."""

    _LONGEST = 8192
    _MOST_BYTES = 8 * 1024 * 1024

    def __init__(self) -> None:
        self.keys: set[bytes] = set()
        self._bytes = 0

    def add(self, key: bytes) -> None:
        """Remember a key; when there are too many, start over."""
        if len(key) > self._LONGEST:
            return
        self._bytes += len(key) + 64
        if self._bytes > self._MOST_BYTES:
            self.keys.clear()
            self._bytes = 0
        self.keys.add(key)

    def clear(self) -> None:
        """Forget all, because something else is searched for now."""
        self.keys.clear()
        self._bytes = 0
