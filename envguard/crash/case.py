"""All that is known about one crash, and whether the run went on after a sign of trouble."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from envguard.crash.collectives import RankStand
from envguard.crash.exits import ProcessExit, count_ranks, find_process_exits
from envguard.crash.log import Log, join_answers
from envguard.crash.memory_use import RunMemory
from envguard.crash.phases import Phase, PhaseSeen, find_phase
from envguard.facts.facts import Facts
from envguard.facts.findings import Finding
from envguard.matrix.loader import Matrix
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.matrix.evidence import SignalsTable
    from envguard.signatures import SignatureMatch


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known of a run beside its log.

    Args:
        exit_code: Status of the process or its launcher, in any form.
        phase: What it was doing.
        phase_origin: Who says so.
        memory: What the samples of a supervised run come to.
        command: The command that ran, for experiments.
        stands: How far ranks came in their collectives, by dumps of the flight recorder.
    """

    exit_code: int | None = None
    phase: Phase | None = None
    phase_origin: str = "--phase"
    memory: RunMemory | None = None
    command: tuple[str, ...] = ()
    stands: tuple[RankStand, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """What rules look at.

    Args:
        log: The evidence of the log.
        matrix: The tables.
        facts: Machine and environment, completed; empty when nothing is stated.
        process exits: How processes ended, the root first.
        seen: The phase of the crash.
        ranks: Ranks on this node; None when not known.
        exit_code: As the user stated it.
        memory: What the samples of a supervised run come to; None without them.
        command: The command that ran; empty when not known.
        stands: How far ranks came in their collectives, by dumps.
        checked: What the checks say about the environment.
    """

    log: Log
    matrix: Matrix
    facts: Facts = field(default_factory=Facts)
    process_exits: tuple[ProcessExit, ...] = ()
    seen: PhaseSeen = field(default_factory=PhaseSeen)
    ranks: int | None = None
    exit_code: int | None = None
    checked: tuple[Finding, ...] = ()
    memory: RunMemory | None = None
    command: tuple[str, ...] = ()
    stands: tuple[RankStand, ...] = ()

    @property
    def table(self) -> SignalsTable:
        """The signals of the matrix."""
        return self.matrix.signals

    @property
    def root_exit(self) -> ProcessExit | None:
        """The root process exit, or None when nothing says that a process died."""
        return self.process_exits[0] if self.process_exits else None

    @property
    def signal(self) -> int | None:
        """The signal of the root process exit."""
        return self.root_exit.status.signal if self.root_exit else None

    @property
    def phase(self) -> Phase | None:
        """The phase of the crash."""
        return self.seen.phase

    def matches(self, *ids: str) -> tuple[SignatureMatch, ...]:
        """The first match of each of these signatures, in line order."""
        found = [hit for name in ids if (hit := self.log.first(name)) is not None]
        return tuple(sorted(found, key=lambda hit: hit.order))


def make_case(
    log: Log,
    matrix: Matrix,
    facts: Facts,
    checked: tuple[Finding, ...],
    known: Circumstances,
) -> Case:
    """Derive the process exits, the phase and the number of ranks from the log."""
    log = join_answers(log)
    workers = len(known.memory.workers()) if known.memory is not None else 0
    exits = find_process_exits(log, known.exit_code, matrix.signals)
    return Case(
        log=log,
        matrix=matrix,
        facts=facts,
        process_exits=tuple(one for one in exits if not _is_bystander(log, known, one)),
        seen=find_phase(log, known.phase, origin=known.phase_origin),
        ranks=count_ranks(log, matrix.signals) or workers or None,
        memory=known.memory,
        command=known.command,
        stands=known.stands,
        exit_code=known.exit_code,
        checked=checked,
    )


def _is_bystander(log: Log, known: Circumstances, one: ProcessExit) -> bool:
    """Whether the kernel ended a process that is none of the run's, which came to its own end."""
    hit = one.match
    return one.source == "kernel" and hit is not None and _ended_after(log, known.exit_code, hit)


# An exception that Python could not hand on is told with its traceback in the lines that follow.
_IGNORED_LINES = 40
# Steps after which a run is held to have gone on; ranks that have not noticed print fewer.
_STEPS = 10
_SIGNS = (
    "told-error",
    "told-failure",
    "error-line",
    "nvrm-trouble",
    "hang-words",
    "crash-words",
    "worker-vanished",
    "traceback",
    "version-solving-failed",
    "no-solution-words",
)
# How much a line tells of what went wrong, the most telling first.
_TELLING = {
    "told-error": 0,
    "error-line": 1,
    "worker-vanished": 2,
    "no-solution-words": 3,
    "version-solving-failed": 3,
    "nvrm-trouble": 4,
    "told-failure": 5,
    "hang-words": 6,
    "crash-words": 7,
}
_AT_WORK = ("phase:iteration", "phase:eval", "phase:save", "phase:teardown", "phase-save-done")


def went_on(case: Case, hit: SignatureMatch) -> bool:
    """Whether steps of training, or the end of the program, follow a line."""
    if case.exit_code == 0:
        return True
    end = case.log.last("came-to-its-end")
    if end is not None and end.order > hit.order:
        return True
    steps = ("life-signs", "phase:iteration")
    return sum(later.order > hit.order for later in case.log.all(*steps)) >= _STEPS


def outlived(case: Case, hit: SignatureMatch) -> bool:
    """Whether the program came to its own end after a line, so that it did not die of it."""
    return _ended_after(case.log, case.exit_code, hit)


def _ended_after(log: Log, exit_code: int | None, hit: SignatureMatch) -> bool:
    if exit_code is not None:
        return exit_code == 0
    end = log.last("came-to-its-end")
    return end is not None and end.order > hit.order


def worked_after(case: Case, hit: SignatureMatch) -> bool:
    """Whether the program trained, saved or ended well after a line that warned of something."""
    last = case.log.last(*_AT_WORK)
    return case.exit_code == 0 or (last is not None and last.order > hit.order)


def own_exceptions(case: Case) -> tuple[SignatureMatch, ...]:
    """Exceptions that ended the program: not a launcher's or a build's, not ignored or survived."""
    ignored = [hit.order for hit in case.log.all("ignored-exception")]
    of_launchers = tuple(name for row in case.table.launchers for name in row.raises)
    # A build's last exception says that a command failed; the error is the command's own.
    wrappers = {hit.order for hit in case.log.all("build-wrapper")}
    return tuple(
        hit
        for hit in case.log.all("python-exception")
        if not hit.groups["type"].endswith(of_launchers)
        and hit.order not in wrappers
        and not any(0 < hit.order - order <= _IGNORED_LINES for order in ignored)
        and not went_on(case, hit)
    )


def root_exception(case: Case) -> SignatureMatch | None:
    """The exception that the others came of; None where none ended the program.

    Of a chain it is the first. Of several ranks it is that of the rank that failed first; of one
    program the last one ended it.
    """
    own = own_exceptions(case)
    if not own:
        return None
    if len({hit.rank for hit in own}) > 1:
        return own[0]
    links = [hit.order for hit in case.log.all("exception-chain")]
    root = own[-1]
    for before in reversed(own[:-1]):
        if not any(before.order < link < root.order for link in links):
            break
        root = before
    return root


def ended_well(case: Case) -> bool:
    """Whether something says that the program came to its own end, and nothing failed after."""
    if case.exit_code is not None:
        return case.exit_code == 0
    end = case.log.last("came-to-its-end")
    stated = case.log.last("return-code-words")
    is_told = end is not None or (stated is not None and stated.number("code") == 0)
    return is_told and not failures(case)


def failures(case: Case) -> tuple[SignatureMatch, ...]:
    """The lines that say that something failed, the most telling first; those it outlived aside.

    Of lines that tell as much the first one stands first: what follows comes of it.
    """
    if case.exit_code == 0:
        return ()
    ignored = [hit.order for hit in case.log.all("ignored-exception")]
    hits = [
        hit
        for hit in case.log.all(*_SIGNS)
        if not any(0 < hit.order - order <= _IGNORED_LINES for order in ignored)
    ]
    hits += [hit for hit in case.log.all("return-code-words", "torchrun-exitcode") if _failed(hit)]
    hits = [hit for hit in hits if not went_on(case, hit)]
    return tuple(sorted(hits, key=lambda hit: (_TELLING.get(hit.id, len(_TELLING)), hit.order)))


def _failed(hit: SignatureMatch) -> bool:
    return hit.number("code") not in {0, None}
