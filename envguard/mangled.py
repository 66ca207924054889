"""Reads mangled C++ names, token by token: whose a name is, and which ``std::string`` it takes.

libtorch before 2.7 was built with the old ``std::string``; names of functions that take one then
hold the abbreviation ``Ss`` where names of the new ABI hold ``__cxx1112basic_string``. Neither
can be looked for in the bytes alone: letters stand inside identifiers, and numbers are lengths,
values of template arguments or positions, which only reading from the front tells.

Source: the Itanium C++ ABI, section 5.1 (mangling); GCC manual, "Dual ABI".
"""

from __future__ import annotations

import re

from envguard.values import dataclass

# What is no part of an identifier and yet holds digits, an S or an L.
_TOKEN = re.compile(
    r"(?P<string>Ss)|S[tabiod]|S[0-9A-Z]*_|T(?:L\d*_)?\d*_|A\d+_|f(?:L\d+)?p[rVK]*\d*_|Dv\d+_|DB\d+_|Ut\d*_"
    r"|C(?:I[12]|[1-5])|D[0-5]|_\d|__\d+_"
    r"|(?P<length>[1-9]\d{0,5})"
    r"|(?P<open>[NIJXFZL]|Ul|D[tT])"
    r"|(?P<close>E)"
    r"|D[a-zA-Z]|.",
    re.DOTALL,
)
_START = re.compile(
    r"_Z(?:T[VTISWC]|GV|GR|GTt|T[hv]n?\d+_(?:n?\d+_)?|Tc(?:[hv]n?\d+_(?:n?\d+_)?){2})?"
)
# Operators whose second letter would open something; types never stand where these do.
_OPERATOR = re.compile(r"aN|aS|dV|eO|lS|mI|mL|oR|pL|rM|rS")
_QUALIFIERS = re.compile(r"[rVK]*[RO]?")
_VALUE = re.compile(r"n?[0-9a-f]*(?:_[0-9a-f]+)?(?=E)")
_BUILTIN_LITERAL = re.compile(r"[a-z](?=n?[0-9a-f]*(?:_[0-9a-f]+)?E)|D[a-z]")
_NUMBER_IN_LAMBDA = re.compile(r"\d*_")
_LENGTH, _ABBREVIATION = re.compile(r"L?([1-9]\d{0,5})"), re.compile(r"S[tabsiod]")
_NAMESPACES_OF_TORCH = frozenset({"c10", "at", "torch", "caffe2", "c10d"})
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class MangledName:
    """What a mangled name says.

    Args:
        scopes: The names of what it is about, outermost first: ``("c10", "Error")``; ``std`` for
            what the standard library has.
        mentioned: Every identifier in it, those of its arguments among them.
        has_old_string: It takes or belongs to the old ``std::string``.
        has_new_string: It takes or belongs to the new one.
        is_whole: It was read to its end.
    """

    scopes: tuple[str, ...]
    mentioned: frozenset[str]
    has_old_string: bool
    has_new_string: bool
    is_whole: bool

    @property
    def namespace(self) -> str:
        """The outermost name; empty for none."""
        return self.scopes[0] if len(self.scopes) > 1 else ""

    @property
    def is_of_torch(self) -> bool:
        """Whether it belongs to libtorch: its own name, or a template made for its types."""
        if self.namespace in _NAMESPACES_OF_TORCH:
            return True
        return self.namespace == "std" and not self.mentioned.isdisjoint(_NAMESPACES_OF_TORCH)

    @property
    def takes_torch_types(self) -> bool:
        """Whether torch's namespaces stand anywhere in it."""
        return not self.mentioned.isdisjoint(_NAMESPACES_OF_TORCH)

    @property
    def is_of_libstdcxx(self) -> bool:
        """Whether it belongs to the GNU C++ library: ``std`` without anybody's types."""
        is_std = self.namespace in {"std", "__cxxabiv1", "__gnu_cxx"}
        return is_std and not self.takes_torch_types and "__1" not in self.mentioned

    @property
    def cxx11_string(self) -> bool | None:
        """True for the new ``std::string``, False for the old one, None where it names neither."""
        if self.has_new_string:
            return True
        return False if self.has_old_string else None


class _Reader:
    """Walks over the tokens of one name, with what is open at each place."""

    def __init__(self, name: str, at: int) -> None:
        self.name = name
        self.at = at
        self.open: list[str] = []
        self.identifiers: list[str] = []
        self.has_old_string = False
        self.is_whole = True

    def read(self) -> bool:
        """Read to the end; False where something in it is not understood."""
        self._operator()
        while self.at < len(self.name) and self.name[self.at] not in ".@":  # clones, versions
            self._step()
        return self.is_whole and not self.open

    def _operator(self) -> None:
        found = _OPERATOR.match(self.name, self.at)
        if found is not None:
            self.at = found.end()

    def _step(self) -> None:
        if self.open and self.open[-1] == "N":
            self._operator()
        token = _TOKEN.match(self.name, self.at)
        if token is None:
            return
        self.at = token.end()
        if token["length"]:
            self._identifier(int(token["length"]))
        elif token["open"]:
            self._enter(token["open"])
        elif token["close"]:
            self._leave()
        elif token["string"]:
            self.has_old_string = True
        self._value()

    def _identifier(self, length: int) -> None:
        found = self.name[self.at : self.at + length]
        self.identifiers.append(found)
        self.at += length
        self.is_whole = self.is_whole and len(found) == length

    def _enter(self, opened: str) -> None:
        """Remember what is open: ``L`` a literal, or before a name that is a file's own."""
        if opened == "L" and self.name[self.at : self.at + 1].isdigit() and not self._is_among():
            return
        self.open.append(opened[0])
        if opened == "L":
            builtin = _BUILTIN_LITERAL.match(self.name, self.at)
            if self.name.startswith("_Z", self.at):
                self.open[-1] = "L_Z"
                self.at += 2
            elif builtin is not None:
                self.at = builtin.end()

    def _is_among(self) -> bool:
        """Whether arguments of a template, or an expression, stand here."""
        return bool(self.open) and self.open[-1] in "IJX"

    def _leave(self) -> None:
        if not self.open:
            self.is_whole = False
            return
        closed = self.open.pop()
        if closed == "U":
            number = _NUMBER_IN_LAMBDA.match(self.name, self.at)
            self.at = number.end() if number else self.at
        elif closed == "Z" and self.name.startswith("s", self.at):
            self.at += 1

    def _value(self) -> None:
        """Pass over the value of a literal: its type has been read, and ``E`` follows."""
        if self.open and self.open[-1] == "L":
            value = _VALUE.match(self.name, self.at)
            if value is not None:
                self.at = value.end()


def read_mangled(name: str) -> MangledName | None:
    """What a mangled name says; None for a name that is not mangled.

    Args:
        name: As the linker and the loader print it.
    """
    start = _START.match(name[:_LONGEST])
    if start is None:
        return None
    reader = _Reader(name[:_LONGEST], start.end())
    scopes, is_old = _scopes_at(name, start.end())
    is_whole = reader.read()
    mentioned = frozenset(reader.identifiers)
    return MangledName(
        scopes=scopes,
        mentioned=mentioned,
        has_old_string=is_old or reader.has_old_string,
        has_new_string="basic_string" in mentioned and "__cxx11" in mentioned,
        is_whole=is_whole,
    )


def _scopes_at(name: str, at: int) -> tuple[tuple[str, ...], bool]:
    """The names of the entity itself, and whether the outermost is the old string."""
    if name.startswith("Z", at):  # something inside a function
        return _scopes_at(name, at + 1)
    is_nested = name.startswith("N", at)
    if is_nested:
        at = _QUALIFIERS.match(name, at + 1).end()  # type: ignore[union-attr]  # may be empty
    scopes: list[str] = []
    is_old = name.startswith("Ss", at)
    if abbreviation := _ABBREVIATION.match(name, at):
        scopes.append("std")
        at = abbreviation.end()
        if abbreviation[0] != "St":
            scopes.append("string" if is_old else "stream")
    while (found := _LENGTH.match(name, at)) is not None:
        at = found.end() + int(found[1])
        scopes.append(name[found.end() : at])
        if not is_nested and len(scopes) > (scopes[0] == "std"):
            break
    return tuple(scopes), is_old
