"""Where the ranks of a job stand in their collectives: process group, number, operation, size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING

from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from envguard.crash.log import Log
    from envguard.signatures import SignatureMatch

# Of these every rank states as many elements as the others; of the rest, ranks may state their own.
_EQUAL_SIZES = frozenset(
    {"ALLREDUCE", "BROADCAST", "REDUCE", "ALLGATHERBASE", "REDUCESCATTERBASE", "ALLREDUCECOALESCED"}
)
_BETWEEN_TWO = ("SEND", "RECV", "COALESCED")
DEFAULT_GROUP = "0"


@dataclass(frozen=True, slots=True)
class Call:
    """A collective as one rank called it.

    Args:
        operation: As the log or the dump names it.
        size_in: Elements that go in, all tensors together; None when not told.
        size_out: Elements that come out.
    """

    operation: str
    size_in: int | None = None
    size_out: int | None = None

    @property
    def kind(self) -> str:
        """The operation, in one spelling for logs and dumps."""
        return self.operation.replace("_", "").upper()

    @property
    def is_between_two(self) -> bool:
        """Whether it concerns two ranks only, so that others need not call it."""
        return self.kind.startswith(_BETWEEN_TWO)

    def differs_from(self, other: Call) -> bool:
        """Whether two ranks cannot have meant the same collective."""
        if self.is_between_two or other.is_between_two:
            return False
        if self.kind != other.kind:
            return True
        sizes = (self.size_in, self.size_out), (other.size_in, other.size_out)
        return (
            self.kind in _EQUAL_SIZES and None not in (*sizes[0], *sizes[1]) and len({*sizes}) > 1
        )

    @property
    def text(self) -> str:
        """For a person: ``ALLREDUCE of 4096 elements``."""
        if self.size_in is None:
            return self.operation
        return f"{self.operation} of {self.size_in} elements"


@dataclass(frozen=True, slots=True)
class RankStand:
    """How far one rank came in one process group.

    Args:
        rank: The rank, of the job where that is told.
        group: The group's name, the same on all its ranks; empty when not told.
        waits_at: Number of the collective that does not end; None when none is known.
        calls: The collectives that are known of it, by number.
        enqueued: Number of the last one that it called; None when not told.
        completed: Number of the last one that ended; None when not told.
        caller: Where the program called what does not end, ``train.py:88``; empty when not told.
        members: The ranks of the group; empty when not told.
        places: Where it is told, with the words, for evidence.
    """

    rank: int
    group: str = ""
    waits_at: int | None = None
    calls: Mapping[int, Call] = field(default_factory=dict)
    enqueued: int | None = None
    completed: int | None = None
    caller: str = ""
    members: tuple[int, ...] = ()
    places: tuple[tuple[str, str], ...] = ()

    @property
    def call(self) -> Call | None:
        """The collective that does not end."""
        return self.calls.get(self.waits_at) if self.waits_at is not None else None

    @property
    def reached(self) -> int | None:
        """Number of the last collective that it is known to have called."""
        known = [n for n in (self.enqueued, self.waits_at) if n is not None]
        return max(known, default=None)


class Standing(Enum):
    """How the ranks of a group stand to each other."""

    DIFFER = "different collectives at one number, or ranks that wait at different ones"
    BEHIND = "some did not call what the others wait in"
    EQUAL = "all that are known wait in the same one"
    ALONE = "one rank waits, and nothing is known of the others"


@dataclass(frozen=True, slots=True)
class Hang:
    """What the stands of one group come to.

    Args:
        standing: How they stand to each other.
        number: Number of the collective that does not end.
        stands: All ranks of the group of which something is known, by rank.
        named: The ranks that are behind, or that differ.
    """

    standing: Standing
    number: int
    stands: tuple[RankStand, ...]
    named: tuple[RankStand, ...]

    @property
    def group(self) -> str:
        """The name of the group, empty when not told."""
        return self.stands[0].group


def find_hang(stands: Iterable[RankStand]) -> Hang | None:
    """What stands come to: the group that tells most, or None when nobody waits.

    A rank may have called more than the one that it waits in, because calls run ahead of the GPU:
    it is behind only where it did not call what others wait in.
    """
    groups: defaultdict[str, dict[int, RankStand]] = defaultdict(dict)
    for stand in stands:
        ranks = groups[stand.group]
        ranks[stand.rank] = _joined(ranks[stand.rank], stand) if stand.rank in ranks else stand
    hangs = [hang for ranks in groups.values() if (hang := _hang_of(ranks)) is not None]
    return min(hangs, key=lambda hang: list(Standing).index(hang.standing), default=None)


def _joined(one: RankStand, other: RankStand) -> RankStand:
    """Two tellings of one rank and group, by a log and a dump."""
    first = one if one.waits_at is not None else other
    return replace(
        first,
        calls={**other.calls, **one.calls},
        enqueued=_larger(one.enqueued, other.enqueued),
        completed=_larger(one.completed, other.completed),
        caller=one.caller or other.caller,
        members=one.members or other.members,
        places=(*one.places, *other.places),
    )


def _larger(one: int | None, other: int | None) -> int | None:
    return max((n for n in (one, other) if n is not None), default=None)


def _hang_of(by_rank: Mapping[int, RankStand]) -> Hang | None:
    stands = tuple(by_rank[rank] for rank in sorted(by_rank))
    waiting = tuple(stand for stand in stands if stand.waits_at is not None)
    if not waiting:
        return None
    numbers = {stand.waits_at for stand in waiting if stand.waits_at is not None}
    number = max(numbers)
    differing = _differing(stands)
    if differing is not None:
        return Hang(Standing.DIFFER, *differing)
    behind = tuple(s for s in stands if s.reached is not None and s.reached < number)
    if behind:
        return Hang(Standing.BEHIND, number, stands, behind)
    if len(numbers) > 1:
        return Hang(Standing.DIFFER, min(numbers), stands, waiting)
    standing = Standing.EQUAL if len(waiting) > 1 else Standing.ALONE
    return Hang(standing, number, stands, waiting)


def _differing(
    stands: tuple[RankStand, ...],
) -> tuple[int, tuple[RankStand, ...], tuple[RankStand, ...]] | None:
    """The first number at which ranks called different things, all ranks, and two that differ."""
    for number in sorted({number for stand in stands for number in stand.calls}):
        calling = [stand for stand in stands if number in stand.calls]
        for stand in calling[1:]:
            if stand.calls[number].differs_from(calling[0].calls[number]):
                return number, stands, (calling[0], stand)
    return None


def stands_of_log(log: Log) -> Iterator[RankStand]:
    """What the watchdogs of the ranks say, each with the group that its status line names."""
    states = [(_rank(hit), hit) for hit in log.all("nccl-pg-status")]
    told: set[int] = set()
    for hit in log.all("nccl-watchdog"):
        rank, number = _rank(hit), hit.number("seq")
        if rank is None or number is None:
            continue
        group = next(
            (s.groups["group"] for r, s in states if r == rank and s.number("seq") == number), None
        )
        told.add(rank)
        yield RankStand(
            rank,
            _name(group, states, rank),
            number,
            {number: Call(hit.groups["op"], hit.number("nin"), hit.number("nout"))},
            places=((hit.place, hit.text),),
        )
    for known, hit in states:
        if known is not None:
            yield _state(known, hit)


def _rank(hit: SignatureMatch) -> int | None:
    """The rank of the job that a line's prefix names; else that of the group, in its words."""
    return hit.rank if hit.rank is not None else hit.number("r")


def _name(group: str | None, states: list[tuple[int | None, SignatureMatch]], rank: int) -> str:
    """The group of a watchdog's line: its status's, or the only one of which the rank tells."""
    if group is not None:
        return group
    names = {hit.groups["group"] for known, hit in states if known == rank}
    return names.pop() if len(names) == 1 else ""


def _state(rank: int, hit: SignatureMatch) -> RankStand:
    number, done = hit.number("seq"), hit.number("done")
    return RankStand(
        rank,
        hit.groups["group"],
        number if number is not None and number >= 0 else None,
        enqueued=hit.number("enq"),
        completed=done,
        places=((hit.place, hit.text),),
    )
