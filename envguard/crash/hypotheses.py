"""Hypotheses where nothing is established: ranked, each with one experiment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.checks.breaks import known_values
from envguard.conditions import bug_holds
from envguard.crash.case import (
    ended_well,
    failures,
    own_exceptions,
    root_exception,
    went_on,
    worked_after,
)
from envguard.crash.cause_findings import (
    RaisedHypothesis,
    hypotheses_shown,
    hypothesis_finding,
    raise_hypothesis,
)
from envguard.crash.exits import SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGTERM
from envguard.crash.host_figures import last_figure
from envguard.crash.phases import Phase
from envguard.crash.rules import shared_memory as shm
from envguard.crash.rules.gpu_code import is_served
from envguard.crash.rules.host_memory import (
    STATED,
    job_need,
    makes_states,
    message_of,
    no_kill_was_counted,
)
from envguard.crash.rules.native import (
    bug_finding,
    crash_library,
    crash_site,
    hypotheses_of_site,
    is_in_collective,
    shown_by,
)
from envguard.crash.rules.nccl import hypotheses_of_collectives, hypotheses_of_nccl
from envguard.crash.rules.packages import hypotheses_of_breaks
from envguard.crash.status_words import hypotheses_of_statuses
from envguard.crash.tried import spoken_against
from envguard.facts.findings import Finding, Remedy, Status
from envguard.facts.sentences import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from envguard.crash.case import Case


def hypotheses_of_nvml(case: Case) -> Iterator[RaisedHypothesis]:
    """Hypotheses from words about NVML, unless the program worked after them."""
    hits = case.matches("nvml-not-started", "nvml-missing")
    if not hits or worked_after(case, hits[-1]):
        return
    yield raise_hypothesis("no-gpu-visible")
    yield raise_hypothesis("nvml-cgroup-reload")
    yield raise_hypothesis("nvml-kernel-userspace-mismatch")
    yield raise_hypothesis("nvml-missing-tegra")


_NO_WORD = "no word of the kernel or of a limit in this log"
# Ranks that differ from those of the rows: where more is known, a hypothesis stands elsewhere.
_FIRST_OF_SIGNAL, _BEHIND_SHM, _AT_START, _BEHIND_STORAGE = 600, 640, 650, 620
_BEFORE_OTHERS_MEMORY = 300
# Behind who else may have killed it, where figures or the cgroup speak against memory.
_BEHIND_KILLERS = 680


def hypotheses_of_kill(case: Case) -> Iterator[RaisedHypothesis]:
    """SIGKILL without evidence: memory by phase, a limit, the machine, someone else.

    Figures of host memory order them: a machine that is half empty was hardly what killed it.
    """
    counted = no_kill_was_counted(case)
    spare = _spare_memory(case)
    against = "the memory cgroup counted no kill during this run" if counted else spare or _NO_WORD
    behind: dict[str, object] = {"rank": _BEHIND_KILLERS} if counted or spare else {}
    yield from _by_phase(case, against, behind)
    yield from _by_worker(case, against, behind)
    of_limit = "the cgroup counted no kill" if counted else _NO_WORD
    yield raise_hypothesis(
        "container-memory-limit", against=of_limit, **({"rank": _BEHIND_KILLERS} if counted else {})
    )
    yield raise_hypothesis("host-memory-exhausted.kill", against=against, **behind)
    if counted or spare:
        yield raise_hypothesis("killed-from-outside", against="", rank=_FIRST_OF_SIGNAL)
    elif case.signal is not None:
        yield raise_hypothesis("killed-from-outside", against="no words of a scheduler in this log")


def _spare_memory(case: Case) -> str:
    """What says that the machine had memory to spare when it ended; empty where nothing does.

    A reading from before what needs the memory says nothing.
    """
    need = job_need(case)
    if need is not None and need.is_far_below:
        return need.words
    figure = last_figure(case.log)
    if figure is None or not figure.is_low or makes_states(case):
        return ""
    mark = case.seen.match
    if mark is not None and case.phase is not Phase.TRAIN and mark.order > figure.hit.order:
        return ""
    return say("at the last reading the host had {figure}", figure=figure.words)


def _full_memory(case: Case) -> str:
    """What the text tells of a machine that was full; it orders, and it proves nothing."""
    figure = last_figure(case.log)
    if figure is not None and figure.is_high:
        return say("the host had {figure}", figure=figure.words)
    need = job_need(case)
    if need is not None and need.likely_gib > need.limit_gib:
        return need.words
    told = case.log.last(*STATED)
    return say("the text says {words}", words=f"{told.text[:120]!r}") if told is not None else ""


_IN_PHASE = {
    Phase.LOAD: "host-oom-load.phase",
    Phase.SAVE: "host-oom-save",
    Phase.RESUME: "host-oom-resume",
}
_OF_CAUSE = {
    "host-oom-load": "host-oom-load.phase",
    "host-oom-per-rank-load": "host-oom-per-rank-load",
    "host-oom-rank0-gather": "host-oom-rank0-gather",
    "host-oom-save": "host-oom-save",
    "host-oom-resume": "host-oom-resume",
    "host-oom-growth": "host-oom-growth",
    "host-oom-optimizer-offload": "host-oom-optimizer-offload",
}


def _by_phase(case: Case, against: str, behind: dict[str, object]) -> Iterator[RaisedHypothesis]:
    """What the phase and the words of the log say needs host memory, the likeliest first."""
    cause, why = message_of(case)
    said = f"{why[:1].lower()}{why[1:].rstrip('.')}"
    named = _OF_CAUSE.get(cause or "")
    phase = _IN_PHASE.get(case.phase) if case.phase else None
    has_offload = case.log.has("offload-words", "deepspeed-words")
    takes_offload = has_offload and case.phase in {Phase.TRAIN, Phase.INIT, None}
    offload = "host-oom-optimizer-offload" if takes_offload else None
    full = _full_memory(case)
    growth = "host-oom-growth" if case.phase is Phase.TRAIN else None
    wanted = (named, offload if full else None, phase, growth, offload)
    first = 600 if full else None
    for place, name in enumerate(dict.fromkeys(one for one in wanted if one)):
        row = case.matrix.causes.hypothesis(name)
        supports = "; ".join(filter(None, (row.supports, said * (name == named), full)))
        rank = {"rank": (first or 605) + place, **behind}
        yield raise_hypothesis(name, supports=supports, against=against, **rank)


def _by_worker(case: Case, against: str, behind: dict[str, object]) -> Iterator[RaisedHypothesis]:
    """A data loader's worker was killed and its parent lived on: memory killers pick one process.

    Batch systems, container runtimes and people end the program or the job.
    """
    if not any(hit.groups["s"].strip() == "Killed" for hit in case.log.all("dl-killed")):
        return
    is_running = case.phase is Phase.TRAIN or case.log.has("life-signs")
    name = "host-oom-growth.workers" if is_running else "host-memory-exhausted.worker"
    yield raise_hypothesis(name, against=against, **behind)


def hypotheses_of_segfault(case: Case) -> Iterator[RaisedHypothesis]:
    """SIGSEGV: the library that is named, shadowed libraries, an extension, NCCL's transport."""
    early = case.phase in {Phase.IMPORT, Phase.INIT, None}
    found = crash_library(case)
    where = say(" in {library}", library=found[1]) if found else ""
    if _is_in_nccl(case):
        yield _transport("NCCL stands in the stack")
    elif case.log.has("deepspeed-words") and case.phase is Phase.INIT:
        yield _transport("the ranks were being joined", rank=_BEHIND_SHM)
    if case.log.has("convolution-words") or "cudnn" in where:
        yield _shadow("it crashed in cuDNN, the library that is most often found twice")
    elif early:
        said = (
            "it crashed at the start"
            if case.phase
            else "two copies of a library are a common cause"
        )
        yield _shadow(said, rank=_AT_START)
    if crash_site(case) is None:
        has_stack = case.log.has("faulthandler-segv")
        name = "unknown-segfault.stack" if has_stack else "unknown-segfault"
        yield raise_hypothesis(name, where=where)
    yield raise_hypothesis("extension-crash", against="" if early else "it ran for a while")


def _is_in_nccl(case: Case) -> bool:
    found = crash_library(case)
    is_named = case.log.has("nccl-frame") or (found is not None and "nccl" in found[1])
    return is_named or is_in_collective(case)


def _transport(supports: str, **more: object) -> RaisedHypothesis:
    return raise_hypothesis("nccl-intra-node-transport.transport", supports=supports, **more)


def _shadow(supports: str, **more: object) -> RaisedHypothesis:
    return raise_hypothesis("ld-library-path-shadow.shadow", supports=supports, **more)


def hypotheses_of_bus_error(case: Case) -> Iterator[RaisedHypothesis]:
    """SIGBUS: shared memory or the storage behind a mapping; the size of /dev/shm orders them."""
    size, _ = shm.shm_size(case)
    is_large = size is not None and size > shm.LARGE
    place = (
        say("it holds {size:.0f} GiB", size=size / 2**30)
        if is_large and size
        else say("its size is not known")
    )
    guessed = case.log.has("dl-bus")
    yield raise_hypothesis(
        "shm-too-small",
        supports="torch's own message guesses it" if guessed else "most SIGBUS come from it",
        against=place,
        **({"rank": _BEHIND_STORAGE} if is_large else {}),
    )
    yield raise_hypothesis("sigbus-from-mmap-storage")


_CODE_WORDS = ("capability-words", "arch-complaint")


def hypotheses_of_errors(case: Case) -> Iterator[RaisedHypothesis]:
    """Hypotheses from words together with facts and figures."""
    if case.log.has("not-available-words", "cuda-unknown-999") and (
        case.log.has("wsl-words") or case.facts.machine.host.is_wsl
    ):
        yield raise_hypothesis("wsl-driver-shadow")
    if case.log.has(*_CODE_WORDS) and not (case.log.has("no-kernel-image") or is_served(case)):
        yield raise_hypothesis("wrong-install-active")
        yield raise_hypothesis("arch-missing-old-gpu")
        yield raise_hypothesis("arch-missing-new-gpu")
    if case.log.has("cuda-oom-bare") and case.log.has("offload-words"):
        yield raise_hypothesis("pinned-host-memory-limit", rank=_BEFORE_OTHERS_MEMORY)
    yield from hypotheses_of_nvml(case)
    yield from hypotheses_of_nccl(case)
    yield from hypotheses_of_statuses(case)


def hypotheses_of_exception(case: Case) -> Iterator[RaisedHypothesis]:
    """A Python exception that no rule knows, or nothing at all."""
    root = root_exception(case)
    if root is not None:
        last = own_exceptions(case)[-1]
        came_of_it = "" if last == root else say("; {text} came of it", text=f"{last.text[:160]!r}")
        yield raise_hypothesis(
            "python-exception",
            type=root.groups.get("type", "an exception"),
            text=f"{root.text[:160]!r}{came_of_it}",
        )
    elif case.exit_code not in {0, None} and not failures(case):
        yield raise_hypothesis("no-evidence", exit_code=case.exit_code)


_NCCL = ("nccl-frame", "nccl-words", "nccl-error-in", "nccl-watchdog", "nccl-collective-trace")


def bug_hypotheses(case: Case) -> Iterator[Finding]:
    """Known bugs whose crash this is, where GPU or versions are not known."""
    for bug in case.matrix.causes.native_bugs:
        hits = shown_by(bug, case)
        if hits is not None and bug_holds(bug, known_values(case.facts)) is None:
            yield bug_finding(bug, case, hits, Status.UNKNOWN)


def hypotheses_of_hang(case: Case) -> Iterator[RaisedHypothesis]:
    """Hypotheses about hangs, and about who asked it to stop, unless the run went on."""
    hang = case.log.first("hang-words")
    if hang is not None and case.signal is None and not went_on(case, hang):
        yield from _hang(case)
    asked = case.log.last("sigterm-words")
    if asked is None or case.signal is not None or went_on(case, asked):
        return
    if not own_exceptions(case):
        yield raise_hypothesis("sigterm-from-supervisor")


def _hang(case: Case) -> Iterator[RaisedHypothesis]:
    if not case.log.has(*_NCCL):
        return
    if not case.log.has("nccl-transport-named"):  # else it was tried, and was no cure
        yield raise_hypothesis("nccl-intra-node-transport.hang")
    yield raise_hypothesis("nccl-watchdog-abort")


def hypotheses_of_failure(case: Case) -> Iterator[RaisedHypothesis]:
    """An error that no rule knows, where nothing better is suspected; or an untold end."""
    hits = failures(case)
    if case.signal is not None or own_exceptions(case):
        return
    if hits:
        ids = tuple(dict.fromkeys(hit.id for hit in hits))
        yield raise_hypothesis("unknown-error", text=f"{hits[0].text[:160]!r}", lines=ids)
    elif not ended_well(case) and not _describes_environment(case):
        count = say("{count} lines", count=case.log.lines)
        yield raise_hypothesis("ending-not-told", searched=count)


# A few words beside an environment are a question about it, unless they tell of trouble.
_FEW_LINES = 8
_FITTING = {Status.OK, Status.SKIP, Status.WARN}
_TROUBLE = re.compile(
    r"(?i)err(?:or|no)|fail|crash|kill|died|dies|hang|stuck|slow|wrong|n.t work|not work|problem"
    r"|issue|exception|can.?not|can.t|unable|abort|fault|lost|miss|out of|oom|warn|refus|invalid"
    r"|unsupported|not support|broken|corrupt|nan\b|leak|timeout|timed out|stop"
)


def _describes_environment(case: Case) -> bool:
    """Whether the text is about an environment, and no log of a run.

    A description stands in it; or it is a few words without any of trouble, beside an environment
    that was judged and in which nothing fails.
    """
    if case.phase is not None and case.seen.match is not None:
        return False
    if case.log.has("environment-words"):
        return True
    fits = case.checked and all(f.status in _FITTING for f in case.checked)
    is_short = 0 < case.log.lines <= _FEW_LINES
    return bool(fits) and is_short and not any(_TROUBLE.search(text) for _, text in case.log.tail)


_BY_SIGNAL: dict[int, Callable[[Case], Iterator[RaisedHypothesis]]] = {
    SIGKILL: hypotheses_of_kill,
    SIGSEGV: hypotheses_of_segfault,
    SIGBUS: hypotheses_of_bus_error,
}


def _tells_of_full_memory(case: Case) -> bool:
    """Whether someone says that host memory ran out, in a text that does not say how it ended."""
    told = case.log.last(*STATED)
    return told is not None and not own_exceptions(case) and not went_on(case, told)


def _of_exit(case: Case) -> Iterator[RaisedHypothesis]:
    """What the signal leaves open, or the exception where it died of none that is known."""
    by_signal = _BY_SIGNAL.get(case.signal or 0)
    if by_signal is not None:
        yield from by_signal(case)
    elif case.signal is None and _tells_of_full_memory(case):
        yield from hypotheses_of_kill(case)
    elif case.signal not in {SIGABRT, SIGILL, SIGFPE, SIGTERM}:  # rows speak of these
        yield from hypotheses_of_exception(case)


# Behind all of which nothing was tried in vain.
_BEHIND_UNTRIED = 890


def _place(one: RaisedHypothesis, case: Case) -> int:
    """Its rank; one whose experiment the text shows to have been made in vain stands behind."""
    row = one.row(case)
    is_made = spoken_against(case, Remedy(row.experiment, row.command))
    return max(row.rank, _BEHIND_UNTRIED) if is_made else row.rank


def find_hypotheses(case: Case) -> Iterator[Finding]:
    """The hypotheses for a case without an established cause, the likeliest first.

    Their rows state their ranks: what words say comes before what the signal leaves open, and an
    exception that nothing explains comes last.

    Returns:
        Findings of status unknown; nothing when nothing went wrong.
    """
    seen: set[str] = set()
    for finding in bug_hypotheses(case):
        seen.add(finding.cause)
        yield finding
    raised = [
        *hypotheses_of_site(case),
        *hypotheses_of_breaks(case),
        *hypotheses_of_hang(case),
        *hypotheses_of_collectives(case),
        *hypotheses_of_errors(case),
        *_of_exit(case),
        *hypotheses_shown(case),
    ]
    for one in sorted(raised, key=lambda one: _place(one, case)):
        cause = one.message_row(case).cause
        if cause not in seen:
            seen.add(cause)
            yield hypothesis_finding(case, one)
    if not seen:
        yield from (hypothesis_finding(case, last) for last in hypotheses_of_failure(case))
