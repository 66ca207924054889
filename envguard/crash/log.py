"""What a scan of a log kept: hits with their lines, the kernel's task table, the last lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Hit:
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
        hits: Kept hits by signature, in line order; the first and the last ones of many.
        counts: How often each signature was found.
        tasks: The kernel's task table, of the last such event.
        tail: The last lines that are not empty, with their numbers.
        lines: Number of lines.
        size: Bytes.
        ends_mid_line: The last line has no line end.
        notes: Remarks on how it was read.
    """

    name: str
    hits: Mapping[str, tuple[Hit, ...]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    tasks: tuple[Task, ...] = ()
    tail: tuple[tuple[int, str], ...] = ()
    lines: int = 0
    size: int = 0
    ends_mid_line: bool = False
    notes: tuple[str, ...] = ()

    def has(self, *ids: str) -> bool:
        """Whether any of these signatures was found."""
        return any(name in self.hits for name in ids)

    def first(self, *ids: str) -> Hit | None:
        """The earliest hit of these signatures."""
        found = [self.hits[name][0] for name in ids if name in self.hits]
        return min(found, key=lambda hit: hit.order, default=None)

    def last(self, *ids: str) -> Hit | None:
        """The latest hit of these signatures."""
        found = [self.hits[name][-1] for name in ids if name in self.hits]
        return max(found, key=lambda hit: hit.order, default=None)

    def all(self, *ids: str) -> Iterator[Hit]:
        """All kept hits of these signatures in line order."""
        found = [hit for name in ids for hit in self.hits.get(name, ())]
        yield from sorted(found, key=lambda hit: hit.order)


_NEAR = 4  # lines between a question and its answer: a warning may stand between them


def join_answers(log: Log) -> Log:
    """Put together what stands on two lines: ``torch.cuda.is_available()`` and ``False``.

    Returns:
        The log, with the question as a hit of ``not-available-words`` where that is its answer.
    """
    asked, answers = log.hits.get("asks-if-available", ()), log.hits.get("answer-false", ())
    told = next(
        (q for q in asked for a in answers if 0 < a.order - q.order <= _NEAR and a.file == q.file),
        None,
    )
    if told is None or log.has("not-available-words"):
        return log
    name = "not-available-words"
    return replace(log, hits={**log.hits, name: (replace(told, id=name),)})
