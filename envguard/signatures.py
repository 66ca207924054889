"""Matches signatures on any text: the log of a crash, what a smoke test's stage said, an install.

A signature is looked at only where one of its literals stands, and its pattern is compiled then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from envguard.facts.findings import Status
from envguard.facts.sentences import fill
from envguard.matrix.causes import compile_pattern
from envguard.values import dataclass
from envguard.wrappers import goes_on, strip_prefix, unwrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from envguard.matrix.causes import Message, Where
    from envguard.matrix.loader import Matrix


# How much of a long line around a literal a pattern is shown, and where such a line is cut.
_BEFORE, _AFTER = 200, 1200
_LONG, _OVERLAP = 4096, 256
LONG_PIECE = 2 * _LONG
_SHOWN = 400
# Lines that carry on a message, and the paragraph in which a solver gives its reasons.
_MOST_JOINED, _LONGEST_PARAGRAPH = 2, 30
_OPENS_PARAGRAPH = ("Because ", "So, because ")
# What a pattern says about digits without asking for certain ones: names, counts and classes.
_OF_ANY_DIGIT = re.compile(r"\(\?P<\w+>|\{\d+(?:,\d*)?\}|\\d|\\x[0-9a-f]{2}|0-9")
_ANSI = re.compile(
    rb"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])"
)


@dataclass(frozen=True, slots=True)
class SignatureMatch:
    """One line that a signature matched.

    Args:
        id: The signature.
        line: Line number in its file, from 1.
        text: The line without colours and prefixes, possibly shortened.
        groups: What the pattern named, without what did not take part.
        rank: The rank that a prefix of the line names.
        file: Name of the file, when several were read.
        order: Position among all lines that were read.
    """

    id: str
    line: int
    text: str
    groups: Mapping[str, str] = field(default_factory=dict)
    rank: int | None = None
    file: str = ""
    order: int = 0

    @property
    def place(self) -> str:
        """Where it stands, for a person: ``line 12`` or ``dmesg.txt line 12``."""
        return f"{self.file} line {self.line}".lstrip()

    def number(self, *names: str) -> int | None:
        """The first of these groups that took part, as a whole number."""
        for name in names:
            text = self.groups.get(name)
            if text is not None and text.lstrip("-").isdecimal():
                return int(text)
        return None


@dataclass(frozen=True)
class SearchPattern:
    """A signature, or the mark of a phase, as a search for it needs it.

    Args:
        id: Its name.
        regex: The pattern, searched in a line that holds one of the literals.
        literals: Texts of which a line that it matches holds one.
    """

    id: str
    regex: str
    literals: tuple[bytes, ...]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern, made when a line first holds one of the literals."""
        return compile_pattern(self.id, self.regex)

    @cached_property
    def reads_digits(self) -> bool:
        """Whether it may match one of two lines that differ in the value of digits only."""
        rest = _OF_ANY_DIGIT.sub("", self.regex)
        return any(character.isdigit() for character in rest)


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


def without_ansi(block: bytes) -> bytes:
    """A block without what colours a terminal and moves its cursor."""
    return _ANSI.sub(b"", block) if b"\x1b" in block else block


def pieces_of(line: bytes) -> Iterator[bytes]:
    """What a terminal would show one after the other; very long ones in overlapping parts."""
    for piece in line.split(b"\r"):
        if len(piece) <= LONG_PIECE:
            yield piece
            continue
        for start in range(0, len(piece), _LONG):
            yield piece[max(0, start - _OVERLAP) : start + _LONG]


class Piece:
    """A piece of a line, and what it may say: read once for all signatures tried on it.

    Args:
        raw: The piece.
        line: Number of the line, from 1.
        after: The lines that follow the piece; empty where it does not end its line.
    """

    __slots__ = ("_whole", "after", "line", "raw")

    def __init__(self, raw: bytes, line: int, after: Sequence[bytes] = ()) -> None:
        self.raw = raw
        self.line = line
        self.after = after
        self._whole: tuple[tuple[str, ...], int | None] | None = None

    def forms_at(self, place: int) -> tuple[tuple[str, ...], int | None]:
        """What stands round a place, and the rank that a prefix names.

        The bare line, the line in its wrappers, and, where the line breaks off in the middle of
        a sentence, the line with what carries it on.
        """
        begin = max(0, place - _BEFORE)
        if begin or len(self.raw) > place + _AFTER:
            return self._read(begin, place + _AFTER, ())
        if self._whole is None:
            self._whole = self._read(0, len(self.raw), self.after)
        return self._whole

    def _read(
        self, begin: int, end: int, after: Sequence[bytes]
    ) -> tuple[tuple[str, ...], int | None]:
        text = self.raw[begin:end].decode("utf-8", "replace")
        # A dot keeps patterns for the start of a line from matching in its middle.
        text, rank = (f".{text}", None) if begin else strip_prefix(text)
        return tuple(_forms(text, after)), rank


def match_piece(mark: SearchPattern, piece: Piece, place: int) -> SignatureMatch | None:
    """Try a signature on a piece of a line.

    Args:
        mark: The signature.
        piece: The piece.
        place: Where in the piece one of the signature's literals stands.
    """
    forms, rank = piece.forms_at(place)
    for form in forms:
        match = mark.pattern.search(form)
        if match is not None:
            shown = _excerpt(form, match)
            return SignatureMatch(
                mark.id, piece.line, shown, _groups(match), rank, order=piece.line
            )
    return None


def _forms(text: str, following: Sequence[bytes]) -> Iterator[str]:
    """What a line may say: bare, in its wrappers, and joined with the lines that carry it on."""
    bare = unwrap(text)
    yield bare
    if text != bare:
        yield text
    joined = whole = bare
    most = _LONGEST_PARAGRAPH if bare.startswith(_OPENS_PARAGRAPH) else _MOST_JOINED
    for raw in following[:most]:
        more = unwrap(raw[:_AFTER].decode("utf-8", "replace"))
        if not goes_on(joined, more):
            break
        joined = f"{joined} {more}"
    if joined != whole:
        yield joined


def _groups(match: re.Match[str]) -> dict[str, str]:
    """What the pattern named; ``port2`` of another alternative is the ``port`` as well."""
    named = {name: value for name, value in match.groupdict().items() if value is not None}
    return {name.rstrip("0123456789"): value for name, value in named.items()} | named


def _excerpt(text: str, match: re.Match[str]) -> str:
    """The line for a person: around the match, without what a terminal would not show."""
    begin = 0 if match.end() <= _SHOWN else max(0, match.start() - 60)
    piece = text[begin : begin + _SHOWN].strip()
    is_clean = piece.isprintable()
    clean = piece if is_clean else "".join(c if c.isprintable() else " " for c in piece)
    return f"...{clean}" if begin else clean


def signature_patterns(matrix: Matrix) -> Iterator[SearchPattern]:
    """All signatures of the tables."""
    for row in matrix.causes.signatures:
        yield SearchPattern(row.id, row.regex, tuple(text.encode() for text in row.literals))


def find_signatures(text: str, matrix: Matrix) -> tuple[SignatureMatch, ...]:
    """All that a short text holds: an error's words, the last lines of a program.

    It finds in a text what the scanner of logs finds in it, without what a log of any size needs.

    Args:
        text: Some lines; colours and what launchers put before a line do not matter.
        matrix: What to look for.

    Returns:
        Each signature once for each piece of a line that it matches, in the order of the lines.
    """
    data = without_ansi(text.encode("utf-8", "replace"))
    marks = [mark for mark in signature_patterns(matrix) if any(t in data for t in mark.literals)]
    lines = data.split(b"\n") if marks else []
    return tuple(
        hit
        for index, line in enumerate(lines)
        for raw in pieces_of(line)
        for piece in (Piece(raw, index + 1, lines_after(lines, index)),)
        for mark in marks
        if (place := _first_place(mark, raw)) >= 0
        and (hit := match_piece(mark, piece, place)) is not None
    )


def lines_after(lines: Sequence[bytes], index: int) -> Sequence[bytes]:
    """The lines that may carry on a message; none after a line that a terminal wrote over."""
    is_plain = b"\r" not in lines[index].rstrip(b"\r")
    return lines[index + 1 : index + 1 + _LONGEST_PARAGRAPH] if is_plain else ()


def _first_place(mark: SearchPattern, piece: bytes) -> int:
    places = [place for text in mark.literals if (place := piece.find(text)) >= 0]
    return min(places, default=-1)


def fill_message(message: Message, groups: Mapping[str, str]) -> Message:
    """A message with what signatures named in its sentences."""
    title, detail, remedy = (
        fill(text, groups) for text in (message.title, message.detail, message.remedy)
    )
    return replace(message, title=title, detail=detail, remedy=remedy)


def find_shown(
    hits: Iterable[SignatureMatch],
    matrix: Matrix,
    where: Where,
    known: Mapping[str, str] | None = None,
) -> Iterator[Message]:
    """What the rows of causes say about what was found, the most fundamental cause first.

    Args:
        hits: What :func:`find_signatures` found in one text.
        matrix: The tables.
        where: What kind of text it is; rows for another kind are left out.
        known: What sentences may name that stands in no text (``python``).

    Yields:
        The message of each row that establishes its cause, with what its signatures named.
    """
    found = tuple(hits)
    ids = frozenset(hit.id for hit in found)
    for cause in matrix.causes.causes if ids else ():
        for row in cause.shown:
            if row.holds_in(where) and row.status is Status.FAIL and row.is_met(ids):
                named = [hit for hit in found if hit.id in {*row.any, *row.all}]
                said = {name: text for hit in reversed(named) for name, text in hit.groups.items()}
                yield fill_message(matrix.causes.message(row.says), {**(known or {}), **said})
