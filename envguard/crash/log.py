"""What a scan of a log kept: matches with their lines, the kernel's task table, the last lines."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from envguard.signatures import SignatureMatch, without_ansi
from envguard.values import dataclass

if TYPE_CHECKING:
    from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class Task:
    """A row of the task table that the kernel prints when memory runs out.

    Args:
        pid: Process.
        name: Command.
        rss_pages: Resident pages; of 4 KiB on x86_64.
        oom_score_adj: Adjustment, -1000 is never killed.
    """

    pid: int
    name: str
    rss_pages: int
    oom_score_adj: int
    line: int

    @property
    def rss_gib(self) -> float:
        """Resident memory in GiB, with pages of 4 KiB."""
        return self.rss_pages * 4096 / 2**30


@dataclass(frozen=True, slots=True)
class Log:
    """The evidence in one log.

    Args:
        name: Where it comes from, for people.
        matches: Kept matches by signature, in line order; the first and the last ones of many.
        counts: How often each signature was found.
        tasks: The kernel's task table, of the last such event.
        tail: The last lines that are not empty, with their numbers.
        lines: Number of lines.
        size: Bytes.
        ends_mid_line: The last line has no line end.
        notes: Remarks on how it was read.
    """

    name: str
    matches: Mapping[str, tuple[SignatureMatch, ...]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    tasks: tuple[Task, ...] = ()
    tail: tuple[tuple[int, str], ...] = ()
    lines: int = 0
    size: int = 0
    ends_mid_line: bool = False
    notes: tuple[str, ...] = ()

    def has(self, *ids: str) -> bool:
        """Whether any of these signatures was found."""
        return any(name in self.matches for name in ids)

    def first(self, *ids: str) -> SignatureMatch | None:
        """The earliest match of these signatures."""
        found = [self.matches[name][0] for name in ids if name in self.matches]
        return min(found, key=lambda hit: hit.order, default=None)

    def last(self, *ids: str) -> SignatureMatch | None:
        """The latest match of these signatures."""
        found = [self.matches[name][-1] for name in ids if name in self.matches]
        return max(found, key=lambda hit: hit.order, default=None)

    def all(self, *ids: str) -> Iterator[SignatureMatch]:
        """All kept matches of these signatures in line order."""
        found = [hit for name in ids for hit in self.matches.get(name, ())]
        yield from sorted(found, key=lambda hit: hit.order)


_NEAR = 4  # lines between a question and its answer: a warning may stand between them


def join_answers(log: Log) -> Log:
    """Put together what stands on two lines: ``torch.cuda.is_available()`` and ``False``.

    Returns:
        The log, with the question as a match of ``not-available-words`` where that is its answer.
    """
    asked, answers = log.matches.get("asks-if-available", ()), log.matches.get("answer-false", ())
    told = next(
        (q for q in asked for a in answers if 0 < a.order - q.order <= _NEAR and a.file == q.file),
        None,
    )
    if told is None or log.has("not-available-words"):
        return log
    name = "not-available-words"
    return replace(log, matches={**log.matches, name: (replace(told, id=name),)})


CHUNK = 1 << 20
_LONGEST_CARRY = 1 << 16
_BOMS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def read_blocks(stream: BinaryIO, chunk: int = CHUNK) -> Iterator[tuple[bytes, bool]]:
    """Cut a stream into blocks that end with a line end where lines are not endless.

    Args:
        stream: Binary; read once, front to back.
        chunk: Bytes to read at a time.

    Yields:
        A block without colours, and whether a line end closes it. UTF-16 with a byte order
        mark comes out as UTF-8.
    """
    carry = b""
    decoder: codecs.IncrementalDecoder | None = None
    is_first = True
    while raw := stream.read(chunk):
        if is_first:
            is_first = False
            decoder = _decoder_for(raw)
        if decoder is not None:
            raw = decoder.decode(raw).encode("utf-8", "replace")
        block = carry + raw
        cut = block.rfind(b"\n") + 1
        if not cut:
            if len(block) < _LONGEST_CARRY:
                carry = block
                continue
            cut = _soft_cut(block)
        elif len(block) - cut > _LONGEST_CARRY:
            cut = _soft_cut(block)
        carry = block[cut:]
        yield without_ansi(block[:cut]), block[cut - 1 : cut] == b"\n"
    if carry:
        yield without_ansi(carry), False


def _soft_cut(block: bytes) -> int:
    """Where to cut a line that does not end: after a progress bar or a blank, else anywhere."""
    tail = len(block) - 512
    cut = max(block.rfind(b"\r", tail), block.rfind(b" ", tail)) + 1
    return cut or len(block)


def _decoder_for(raw: bytes) -> codecs.IncrementalDecoder | None:
    for mark, name in _BOMS:
        if raw.startswith(mark):
            return codecs.getincrementaldecoder(name)("replace")
    return None


# [ pid ] uid tgid total_vm rss, then 3 to 6 columns that differ between kernels, and the name.
_ROW = re.compile(
    rb"\[\s{0,8}(?P<pid>\d{1,9})\]\s{1,10}\d{1,10}\s{1,10}\d{1,9}\s{1,12}\d{1,15}\s{1,12}"
    rb"(?P<rss>\d{1,15})(?:\s{1,14}\d{1,20}){2,6}\s{1,14}(?P<adj>-?\d{1,5})\s{1,4}"
    rb"(?P<name>[A-Za-z_(~/.@:][^\n]{0,60})"
    rb"|(?P<head>\[\s{0,4}pid\s{0,4}\]\s{1,8}uid\s{1,6}tgid)"
)
_WORDS = (b"oom-kill", b"oom_score_adj", b"invoked oom-killer", b"out of memory", b"ut of memory:")
_MOST = 20_000


class TaskTable:
    """Collects the rows of the last out-of-memory event."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []
        self._was_near = False

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The rows, in their order."""
        return tuple(self._tasks)

    def feed(self, block: bytes, first_line: int) -> None:
        """Look for rows, in blocks with the kernel's words about memory and the one after.

        Args:
            block: Whole lines.
            first_line: Number of its first line.
        """
        is_near = any(word in block for word in _WORDS)
        if is_near or self._was_near:
            self._read(block, first_line)
        self._was_near = is_near

    def _read(self, block: bytes, first_line: int) -> None:
        line, counted = first_line, 0
        for match in _ROW.finditer(block):
            if match["head"]:
                self._tasks.clear()
                continue
            if len(self._tasks) >= _MOST:
                continue
            line += block.count(b"\n", counted, match.start())
            counted = match.start()
            name = match["name"].decode("utf-8", "replace").strip()
            self._tasks.append(
                Task(int(match["pid"]), name, int(match["rss"]), int(match["adj"]), line)
            )
