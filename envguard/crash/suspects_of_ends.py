"""What is left to suspect of hangs, lost workers and files, and errors without a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.rules.known_bugs import bug_finding, fits, shown_by
from envguard.crash.suspicion import Suspect, suspect
from envguard.crash.trouble import last_trouble, own_exceptions, went_on
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

_NCCL = ("nccl-frame", "nccl-words", "nccl-error-in", "nccl-watchdog", "nccl-collective-trace")


def suspect_bugs(case: Case) -> Iterator[Finding]:
    """Known bugs whose crash this is, where GPU or versions are not known."""
    for bug in case.matrix.causes.native_bugs:
        hits = shown_by(bug, case)
        if hits is not None and fits(bug, case) is None:
            yield bug_finding(bug, case, hits, Status.UNKNOWN)


def suspect_ends(case: Case) -> Iterator[Suspect]:
    """Hypotheses about hangs, and about workers and files that are gone."""
    hang = case.log.first("hang-words")
    if hang is not None and case.signal is None and not went_on(case, hang):
        yield from _hang(case)
    asked = case.log.last("sigterm-words")
    if asked is not None and case.signal is None and not went_on(case, asked):
        yield from _asked(case)
    if case.log.has("nccl-transport-words") and not case.log.has("nccl-transport-cure"):
        yield from _without_nccl()
    if case.log.has("worker-vanished"):
        yield from _lost_worker()
    if case.log.has("shm-vanished"):
        yield from _lost_memory()
    if case.log.has("zero-shard-missing"):
        yield from _lost_shards()


def _without_nccl() -> Iterator[Suspect]:
    yield suspect("nccl-intra-node-transport")


def _hang(case: Case) -> Iterator[Suspect]:
    if not case.log.has(*_NCCL):
        return
    if not case.log.has("nccl-transport-named"):  # else it was tried, and was no cure
        yield suspect("nccl-intra-node-transport.hang")
    yield suspect("nccl-watchdog-abort")


def _asked(case: Case) -> Iterator[Suspect]:
    if own_exceptions(case):
        return
    yield suspect("sigterm-from-supervisor")


def _lost_worker() -> Iterator[Suspect]:
    yield suspect("host-memory-exhausted")


def _lost_memory() -> Iterator[Suspect]:
    yield suspect("shm-removed-by-logind")
    yield suspect("shm-removed-by-other")


def _lost_shards() -> Iterator[Suspect]:
    yield suspect("zero-layout-changed")
    yield suspect("checkpoint-incomplete")


def suspect_trouble(case: Case) -> Iterator[Suspect]:
    """An error that no rule knows, where nothing better is suspected."""
    hit = last_trouble(case)
    if hit is None or case.signal is not None:
        return
    yield suspect("unknown-error", text=f"{hit.text[:160]!r}", lines=(hit.id,))
