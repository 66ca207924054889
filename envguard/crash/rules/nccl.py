"""NCCL: time-outs, transports, mixed versions, and peers that died first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.case import own_exceptions, went_on, worked_after
from envguard.crash.cause_findings import make_finding, raise_hypothesis
from envguard.crash.collectives import Standing, find_hang, stands_of_log
from envguard.crash.hang_words import silent_ranks, words_of
from envguard.crash.phases import Phase
from envguard.facts.findings import Evidence, Finding, Status
from envguard.facts.sentences import say
from envguard.matrix.statuses import NCCL
from envguard.signatures import fill_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.crash.cause_findings import RaisedHypothesis
    from envguard.crash.collectives import Hang
    from envguard.matrix.statuses import StatusRow

_STANDSTILL = (
    "nccl-watchdog",
    "nccl-frame",
    "nccl-error-in",
    "nccl-cuda-failure",
    "hang-words",
    "illegal-access",
    "launch-failure",
)


def check_transport(case: Case) -> Iterator[Finding]:
    """A crash or hang that ends when NCCL's transport between the GPUs is left out.

    That it passes with gloo leaves out NCCL as a whole, and is a reason to suspect it only.
    """
    hits = case.matches("nccl-transport-cure")
    if hits and (case.signal is not None or case.log.has(*_STANDSTILL)):
        yield make_finding(
            case, "nccl-intra-node-transport", Status.FAIL, (*hits, *case.matches("nccl-frame"))
        )


def check_collectives(case: Case) -> Iterator[Finding]:
    """Ranks out of step, or one that did not come: what their numbers and operations prove."""
    hang = hang_of(case)
    if hang is None or own_exceptions_elsewhere(case):
        return
    if hang.standing is Standing.DIFFER and hang.group:
        yield _finding(case, "collectives-differ", hang)
    elif hang.standing is Standing.BEHIND:
        yield _finding(case, "collective-rank-behind", hang)


def hang_of(case: Case) -> Hang | None:
    """What log and dumps say together of the ranks; None when nobody is known to wait."""
    return find_hang((*stands_of_log(case.log), *case.stands))


_OF_DISTRIBUTED = ("DistBackendError", "DistError", "DistStoreError", "DistNetworkError")


def own_exceptions_elsewhere(case: Case) -> bool:
    """Whether an exception that is not the collectives' own ended a rank."""
    return any(not hit.groups["type"].endswith(_OF_DISTRIBUTED) for hit in own_exceptions(case))


def _finding(case: Case, slug: str, hang: Hang) -> Finding:
    message = fill_message(case.matrix.causes.message(slug), words_of(hang))
    dumped = {place for stand in case.stands for place in stand.places}
    shown = [place for stand in (*hang.named, *hang.stands) for place in stand.places]
    evidence = tuple(
        Evidence(*place, "flight recorder" if place in dumped else case.log.name)
        for place in dict.fromkeys(shown)
    )
    return make_finding(case, message, Status.FAIL, more=evidence[:_SHOWN])


def hypotheses_of_collectives(case: Case) -> Iterator[RaisedHypothesis]:
    """What a time-out leaves open, by what is known of the ranks."""
    hits = case.matches("nccl-watchdog", "nccl-takedown", "nccl-watchdog-frame", "nccl-pg-status")
    hang = hang_of(case)
    if hang is None:
        if hits and not went_on(case, hits[-1]):
            yield raise_hypothesis("nccl-watchdog-abort.waited", stands=_saving(case, _NO_RANK))
        return
    words = words_of(hang)
    words["stands"] = _saving(case, words["stands"])
    yield from (raise_hypothesis(name, **words) for name in _LEFT_OPEN[hang.standing])
    silent = silent_ranks(hang)
    if hang.standing is Standing.EQUAL:
        rank = _BEHIND_TRANSPORT if not silent else _BEFORE_TRANSPORT
        yield raise_hypothesis("nccl-watchdog-abort.waited", rank=rank, **words)


_SHOWN = 8
_NO_RANK = "NCCL's watchdog ended the run, and the log does not say which ranks waited in what"
_LEFT_OPEN: dict[Standing, tuple[str, ...]] = {
    Standing.DIFFER: ("collectives-differ",),
    Standing.BEHIND: ("collective-rank-behind",),
    Standing.EQUAL: ("nccl-intra-node-transport.equal",),
    Standing.ALONE: ("nccl-watchdog-abort.waited",),
}
_BEFORE_TRANSPORT, _BEHIND_TRANSPORT = 104, 106


def _saving(case: Case, words: str) -> str:
    if case.phase is not Phase.SAVE:
        return words
    return say(
        "{words}; it was saving, and a save on one rank may outlast the time-out", words=words
    )


def hypotheses_of_nccl(case: Case) -> Iterator[RaisedHypothesis]:
    """What NCCL returned and what it warned of, where no row knows more about the words."""
    row = _result(case)
    if row is not None:
        yield raise_hypothesis("nccl-error", name=row.name, note=row.meaning)
    yield from _cuda_inside(case)
    yield from _warned(case)


def _result(case: Case) -> StatusRow | None:
    """The result of an NCCL call that the log tells, by its text or its name."""
    for hit in case.log.all("nccl-error-in", "nccl-result-name"):
        words = (hit.groups.get(name) for name in ("err", "err2", "name"))
        rows = (case.matrix.statuses.nccl(text) for text in words if text)
        row = next((row for row in rows if row is not None), None)
        if row is not None:
            return row
    return None


def _cuda_inside(case: Case) -> Iterator[RaisedHypothesis]:
    """The CUDA error of a call that NCCL made: the first one, which the others follow."""
    hit = case.log.first("nccl-cuda-words")
    if hit is None:
        return
    row = case.matrix.statuses.told(hit.groups["string"])
    if row is not None and row.name != "cudaErrorMemoryAllocation":
        yield raise_hypothesis("nccl-error.cuda", name=row.name, note=f": {row.meaning}")


def _warned(case: Case) -> Iterator[RaisedHypothesis]:
    """NCCL's warnings and error returns, unless the program trained or ended well after them."""
    hit = case.log.first("nccl-warn", "nccl-error-return")
    if hit is None or worked_after(case, hit) or went_on(case, hit):
        return
    row = case.matrix.statuses.status(NCCL, hit.number("result") or 0)
    warn = hit.groups.get("warn") or (row.name if row is not None else hit.text)
    yield raise_hypothesis("nccl-error.warn", warn=f"{warn[:160]!r}")
