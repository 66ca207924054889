"""Search a log of any size once, in bounded memory, for every signature and phase mark."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from envguard.crash.log import Log, TaskTable, read_blocks
from envguard.crash.tracebacks import EXCEPTION, TracebackReader
from envguard.signatures import (
    LONG_PIECE,
    NOISE,
    Piece,
    SearchPattern,
    SeenLines,
    build_search,
    keys_of,
    lines_after,
    match_piece,
    pieces_of,
    signature_patterns,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence
    from typing import BinaryIO

    from envguard.matrix.loader import Matrix
    from envguard.signatures import SignatureMatch


T = TypeVar("T")

PHASE, SETTING = "phase:", "setting:"
_KEEP = 24
# Every rank says these once, and a hang is read from all of them.
_OF_EACH_RANK = frozenset({"nccl-watchdog", "nccl-pg-status"})
_KEEP_OF_RANKS = 2048
_BUSY = 4000
_SHOWN = 400
# Lines are of one shape when they differ in the value of their digits only.
_SHAPE = bytes.maketrans(b"123456789", b"000000000")
_MOST_SHAPES, _LONGEST_SHAPE = 4096, 1024
_TAIL = 12
_TAIL_BYTES = 8192
# Up to this size of a log it is quicker to ask for each text by itself than to build the search
# for all of them.
_FEW_BYTES = 32 * 1024


def search_patterns_of(matrix: Matrix) -> tuple[SearchPattern, ...]:
    """Everything that is searched for; phases are named ``phase:ID``, settings ``setting:ID``."""
    phases = (
        SearchPattern(PHASE + row.id, row.regex, tuple(text.encode() for text in row.literals))
        for row in matrix.signals.phases
    )
    settings = (
        SearchPattern(SETTING + row.id, row.regex, tuple(text.encode() for text in row.literals))
        for row in matrix.settings.settings
    )
    return (*signature_patterns(matrix), *phases, *settings)


class _Found:
    """The first and the last matches of one signature, and how many there were."""

    __slots__ = ("count", "first", "keep", "last")

    def __init__(self, keep: int) -> None:
        self.count = 0
        self.keep = keep
        self.first: list[SignatureMatch] = []
        self.last: deque[SignatureMatch] = deque(maxlen=_KEEP)

    def add(self, hit: SignatureMatch) -> None:
        self.count += 1
        (self.first if len(self.first) < self.keep else self.last).append(hit)

    def hits(self, name: str) -> tuple[SignatureMatch, ...]:
        """The kept matches in the order of their lines.

        What ends a traceback is found by its name and by its place: its lines count once each.
        """
        kept = (*self.first, *self.last)
        if name != EXCEPTION:
            return kept
        by_line = {hit.order: hit for hit in reversed(kept)}
        return tuple(by_line[order] for order in sorted(by_line))


class Scanner:
    """One pass over a log, fed block by block.

    Args:
        marks: What to look for.
    """

    def __init__(self, marks: Iterable[SearchPattern]) -> None:
        self._marks = list(marks)
        self._seen = SeenLines()
        self._found: dict[str, _Found] = {}
        self._in_vain: set[bytes] = set()
        self._vain_twins: set[tuple[bytes, bytes]] = set()
        self._tasks = TaskTable()
        self._tracebacks = TracebackReader()
        self._line = 1
        self._before = 0
        self._file = ""
        self._size = 0
        self._tail = b""
        self._tail_line = 1
        self._is_closed = True
        self._is_whole = False
        self._busy: list[SearchPattern] = []
        self._pairs: list[tuple[bytes, SearchPattern]] = []
        self._find: re.Pattern[bytes] | None = None
        self._by_start: dict[bytes, list[tuple[bytes, SearchPattern]]] = {}

    def _set_literals(self, block: bytes | None = None) -> None:
        """Build the search for candidates; signatures found thousands of times leave it.

        Args:
            block: The only text that will be searched: what it does not hold is left out. None
                for any text.
        """
        self._is_whole = block is None
        self._busy = [mark for mark in self._marks if self._is_busy(mark)]
        busy = {mark.id for mark in self._busy}
        pairs = [(t, m) for m in self._marks if m.id not in busy for t in m.literals]
        self._pairs = [pair for pair in pairs if block is None or pair[0] in block]
        self._find = build_search(text for text, _ in self._pairs)
        self._by_start.clear()
        self._seen.clear()
        self._vain_twins.clear()

    def _set_literals_for(self, block: bytes) -> None:
        """Build the search for a block: the first one, when it is short, is often the only one."""
        if self._is_whole:
            return
        is_first_and_short = not self._size and len(block) <= _FEW_BYTES
        self._set_literals(block if is_first_and_short else None)

    def _starting_with(self, text: bytes) -> list[tuple[bytes, SearchPattern]]:
        """What begins with a text that was found: the search finds the shortest at a place."""
        found = self._by_start.get(text)
        if found is None:
            found = [pair for pair in self._pairs if pair[0].startswith(text)]
            self._by_start[text] = found
        return found

    def _is_busy(self, mark: SearchPattern) -> bool:
        found = self._found.get(mark.id)
        return found is not None and found.count >= _BUSY

    def feed(self, block: bytes, *, is_closed: bool) -> None:
        """Take the next block.

        Args:
            block: Whole lines, but for the last one.
            is_closed: A line end closes the block.
        """
        self._set_literals_for(block)
        self._search(block)
        self._tasks.feed(block, self._line)
        for hit in self._tracebacks.feed(block, self._line):
            self._keep(hit)
        self.pass_block(block, is_closed=is_closed)

    def pass_block(self, block: bytes, *, is_closed: bool) -> None:
        """Take a block without searching it: it counts, and its end is remembered."""
        self._size += len(block)
        self._remember_tail(block)
        self._line += block.count(b"\n")
        self._is_closed = is_closed

    def pass_lines(self, lines: int) -> None:
        """Count lines that nobody has seen; what came before them is not the end of the log."""
        self._line += lines
        self._tail_line = self._line
        self._tail = b""

    def start_file(self, name: str) -> None:
        """Begin another file: its lines are numbered from 1 and carry its name."""
        self._before += self._line
        self._line = self._tail_line = 1
        self._tail = b""
        self._file = name

    def _search(self, block: bytes) -> None:
        was_busy = len(self._busy)
        for mark in self._busy:
            self._sample(mark, block)
        seen = self._seen.keys
        lines = None
        for index, key in enumerate(keys_of(block)):
            if key in seen:
                continue
            lines = lines or block.split(b"\n")
            self._search_line(lines, index, key)
        if sum(map(self._is_busy, self._marks)) > was_busy:
            self._set_literals()

    def _search_line(self, lines: Sequence[bytes], index: int, key: bytes) -> None:
        line = lines[index]
        if len(line) <= LONG_PIECE and b"\r" not in line:
            self._examine(line, key, lines, index)
            return
        is_seen = True
        for piece in pieces_of(line):
            short = piece.translate(None, NOISE)
            if short not in self._seen.keys:
                self._examine(piece, short, lines, index)
                is_seen = False
        if is_seen:  # lines of this key hold nothing but pieces that hold nothing
            self._seen.add(key)

    def _examine(self, piece: bytes, key: bytes, lines: Sequence[bytes], index: int) -> None:
        """Try the signatures on a piece of a line.

        A line of a key without any searched text needs no second look; one of a shape that was
        looked at in vain needs one for the signatures only that ask for certain digits.
        """
        found = self._find.search(piece) if self._find is not None else None
        if self._find is None or found is None:
            self._seen.add(key)
            return
        after = lines_after(lines, index)
        twin = (piece, after[0] if after else b"")
        if twin in self._vain_twins:
            return
        read = Piece(piece, self._line + index, after)
        shape = piece.translate(_SHAPE)
        is_in_vain, has_matched = shape in self._in_vain, False
        tried: set[str] = set()
        while found is not None:
            start = found.start()
            for literal, mark in self._starting_with(found.group()):
                if mark.id in tried or not piece.startswith(literal, start):
                    continue
                tried.add(mark.id)
                if not is_in_vain or mark.reads_digits:
                    has_matched |= self._match(mark, read, start)
            found = self._find.search(piece, start + 1)
        if not has_matched and len(shape) <= _LONGEST_SHAPE:
            _remember(self._vain_twins, twin)
            _remember(self._in_vain, shape)

    def _sample(self, mark: SearchPattern, block: bytes) -> None:
        """Of a signature that fills the log only the last place in each block is examined."""
        found = self._found[mark.id]
        for literal in mark.literals:
            place = block.rfind(literal)
            if place < 0:
                continue
            found.count += block.count(literal) - 1
            start, end = _segment(block, place)
            line = self._line + block.count(b"\n", 0, start)
            self._match(mark, Piece(block[start:end], line), place - start)

    def _match(self, mark: SearchPattern, piece: Piece, place: int) -> bool:
        hit = match_piece(mark, piece, place)
        if hit is None:
            return False
        self._keep(hit)
        return True

    def _keep(self, hit: SignatureMatch) -> None:
        named = replace(hit, file=self._file, order=self._before + hit.line)
        keep = _KEEP_OF_RANKS if hit.id in _OF_EACH_RANK else _KEEP
        self._found.setdefault(hit.id, _Found(keep)).add(named)

    def read(self, stream: BinaryIO) -> None:
        """Take a whole stream."""
        for block, is_closed in read_blocks(stream):
            self.feed(block, is_closed=is_closed)

    def _remember_tail(self, block: bytes) -> None:
        kept = self._tail + block
        if len(kept) > _TAIL_BYTES:
            cut = kept.find(b"\n", len(kept) - _TAIL_BYTES) + 1 or len(kept) - _TAIL_BYTES
            self._tail_line += kept.count(b"\n", 0, cut)
            kept = kept[cut:]
        self._tail = kept

    def latest(self, ids: Iterable[str]) -> SignatureMatch | None:
        """The latest match of some signatures so far."""
        found = [self._found[name] for name in ids if name in self._found]
        hits = [(f.last or f.first)[-1] for f in found]
        return max(hits, key=lambda hit: hit.order, default=None)

    def finish(self, name: str, notes: tuple[str, ...] = ()) -> Log:
        """The evidence, when everything was fed."""
        return Log(
            name=name,
            matches={key: found.hits(key) for key, found in self._found.items()},
            counts={key: found.count for key, found in self._found.items()},
            tasks=self._tasks.tasks,
            tail=tuple(self._tail_lines())[-_TAIL:],
            lines=self._before + self._line - (1 if self._is_closed else 0),
            size=self._size,
            ends_mid_line=not self._is_closed,
            notes=notes,
        )

    def _tail_lines(self) -> Iterable[tuple[int, str]]:
        for offset, raw in enumerate(self._tail.split(b"\n")):
            text = raw.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")
            printable = "".join(c if c.isprintable() else "?" for c in text.strip()[:_SHOWN])
            if printable:
                yield self._tail_line + offset, printable


def _remember(known: set[T], value: T) -> None:
    """Keep a value, within a limit of memory: when there are too many, start over."""
    if len(known) >= _MOST_SHAPES and value not in known:
        known.clear()
    known.add(value)


def _segment(block: bytes, place: int) -> tuple[int, int]:
    """The piece around a place between line ends or carriage returns."""
    start = max(block.rfind(b"\n", 0, place), block.rfind(b"\r", max(0, place - 65536), place)) + 1
    end = block.find(b"\n", place)
    end = len(block) if end < 0 else end
    stop = block.find(b"\r", place, end)
    return start, stop if stop >= 0 else end


def scan_stream(stream: BinaryIO, matrix: Matrix, name: str) -> Log:
    """Read one log to its end.

    Args:
        stream: Binary, read once.
        matrix: What to look for.
        name: Where it comes from, for people.
    """
    scanner = Scanner(search_patterns_of(matrix))
    scanner.read(stream)
    return scanner.finish(name)
