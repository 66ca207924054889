"""The words for a hang: which ranks wait in what, and which are behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.collectives import Standing
from envguard.facts.sentences import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from envguard.crash.collectives import Hang, RankStand

_MOST = 8


def words_of(hang: Hang) -> dict[str, str]:
    """What the sentences of the causes of hangs name.

    Returns:
        ``calls``: who is in what; ``ranks``: who is behind or waits; ``call``: the collective;
        ``others``: who waits; ``stands``: where all stand; ``group``; ``callers``: a sentence on
        where the program called it, or nothing.
    """
    waiting = [stand for stand in hang.stands if stand.waits_at == hang.number]
    call = next((s.calls[hang.number] for s in waiting if hang.number in s.calls), None)
    named = say("{call}, number {number}", call=call.text, number=hang.number) if call else ""
    return {
        "calls": _calls(hang),
        "ranks": ranks_text(stand.rank for stand in hang.named),
        "call": named or say("the collective number {number}", number=hang.number),
        "others": _wait(waiting),
        "stands": _stands(hang, waiting),
        "group": hang.group or "of unknown name",
        "callers": _callers(hang),
    }


def ranks_text(ranks: Iterable[int]) -> str:
    """``rank 3``, ``ranks 3 and 5``, ``ranks 0, 1, 2 and 5 others``."""
    found = sorted(set(ranks))
    if len(found) == 1:
        return say("rank {rank}", rank=found[0])
    shown = found if len(found) <= _MOST else found[:_MOST]
    head = ", ".join(map(str, shown[:-1] if shown is found else shown))
    last = str(shown[-1]) if shown is found else say("{count} others", count=len(found) - _MOST)
    return say("ranks {head} and {last}", head=head, last=last)


def silent_ranks(hang: Hang) -> tuple[int, ...]:
    """Ranks of the group of which nothing is told: by its members, else gaps in the count."""
    known = {stand.rank for stand in hang.stands}
    members = next((s.members for s in hang.stands if s.members), range(max(known) + 1))
    return tuple(rank for rank in members if rank not in known)


def _wait(waiting: list[RankStand]) -> str:
    verb = "waits" if len(waiting) == 1 else "wait"
    return say("{ranks} {verb}", ranks=ranks_text(s.rank for s in waiting), verb=verb)


def _calls(hang: Hang) -> str:
    """``rank 0 is in ALLREDUCE of 4 elements, number 3; rank 1 is in ALLGATHER, number 3``."""
    said: dict[str, list[int]] = {}
    for stand in hang.named:
        at = hang.number if hang.number in stand.calls else stand.waits_at
        call = stand.calls.get(at) if at is not None else None
        if call is not None:
            words = say("{call}, number {at}", call=call.text, at=at)
            said.setdefault(words, []).append(stand.rank)
    return "; ".join(
        say("{ranks} in {what}", ranks=ranks_text(ranks), what=what) for what, ranks in said.items()
    )


def _stands(hang: Hang, waiting: list[RankStand]) -> str:
    if hang.standing is Standing.BEHIND:
        behind = "; ".join(
            say("rank {rank} stands at {at}", rank=stand.rank, at=stand.reached)
            for stand in hang.named[:_MOST]
        )
        return say(
            "{behind}, while {others} at {number}",
            behind=behind,
            others=_wait(waiting),
            number=hang.number,
        )
    call = next((s.calls[hang.number] for s in waiting if hang.number in s.calls), None)
    said = say(
        "{others} in {call} number {number}",
        others=_wait(waiting),
        call=call.text if call else "the collective",
        number=hang.number,
    )
    silent = silent_ranks(hang)
    if silent and (hang.standing is not Standing.ALONE or hang.stands[0].members):
        said = say("{said}, and of {silent} nothing is told", said=said, silent=ranks_text(silent))
    elif hang.standing is Standing.ALONE:
        said = say("{said}, and nothing is told of the other ranks", said=said)
    return said


def _callers(hang: Hang) -> str:
    told = [
        say("rank {rank} at {caller}", rank=stand.rank, caller=stand.caller)
        for stand in hang.named[:_MOST]
        if stand.caller
    ]
    return say(" In the program: {told}.", told=", ".join(told)) if told else ""
