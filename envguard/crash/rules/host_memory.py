"""Host memory: SIGKILL with the kernel's word, the task table or samples; the phase orders only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.case import outlived
from envguard.crash.cause_findings import make_finding
from envguard.crash.exits import SIGKILL
from envguard.crash.host_figures import last_figure
from envguard.crash.phases import Phase
from envguard.facts.findings import Evidence, Finding, Status
from envguard.facts.sentences import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.crash.job_need import JobNeed
    from envguard.crash.log import Task
    from envguard.signatures import SignatureMatch


_GIB = 2**30
_ORIGIN = "samples of the run"
_OF_JOBS = ("params-counted", "params-named")  # a log that describes a job tells its size


def run_evidence(case: Case) -> tuple[Evidence, ...]:
    """Evidence of a kill for want of memory; empty when the samples hold none.

    The cgroup's counter rose, or the machine had next to nothing left. That memory was high is
    told with it, and proves nothing alone.
    """
    memory = case.memory
    if memory is None:
        return ()
    total = case.facts.machine.limits.ram_bytes
    least = memory.available_min_bytes
    is_drained = bool(total and least is not None and least < 0.01 * total)
    if not memory.kills and not is_drained:
        return ()
    return tuple(_figures(case))


def _figures(case: Case) -> Iterator[Evidence]:
    memory = case.memory
    if memory is None:
        return
    if memory.kills:
        said = f"rose by {memory.kills}"
        yield Evidence("oom_kill of the cgroup", said, _ORIGIN)
    if memory.cgroup_peak_bytes is not None and memory.cgroup_limit_bytes is not None:
        said = f"{_size(memory.cgroup_peak_bytes)} of {_size(memory.cgroup_limit_bytes)}"
        yield Evidence("cgroup use, without cache", said, _ORIGIN)
    elif memory.available_min_bytes is not None:
        yield Evidence("least available memory", _size(memory.available_min_bytes), _ORIGIN)
    for use in memory.workers()[:8]:
        name = f"rank {use.rank}" if use.rank else f"pid {use.pid}"
        said = f"{_size(use.last_bytes)} at last, peak {_size(use.peak_bytes)}"
        yield Evidence(f"memory of {name}", said, _ORIGIN)


def reached_limit(case: Case) -> bool:
    """Whether the samples show that the limit of the cgroup was what ended it."""
    memory = case.memory
    if memory is None or not memory.kills or memory.cgroup_limit_bytes is None:
        return False
    return (memory.cgroup_peak_bytes or 0) >= 0.5 * memory.cgroup_limit_bytes


def no_kill_was_counted(case: Case) -> bool:
    """Whether a supervised run is known to have lost no process to a memory killer.

    The kernel counts every process of a cgroup that any of its memory killers ends.
    """
    memory = case.memory
    return memory is not None and memory.kills_after is not None and not memory.kills


def measured_sizes(case: Case) -> list[int]:
    """Peaks of the ranks, the largest first."""
    memory = case.memory
    return [use.peak_bytes for use in memory.workers()] if memory is not None else []


def _size(value: int) -> str:
    return f"{value / _GIB:.2f} GiB"


_SMALLEST_SHAPE = 2**28  # processes below that are no ranks of a model

KERNEL = (
    "kernel-oom-global",
    "kernel-oom-memcg",
    "kernel-oom-constraint",
    "kernel-oom-old",
    "systemd-oom",
    "ray-memory-monitor",
)
LIMIT = ("kernel-oom-memcg", "cgroup-v2-oomkill", "slurm-oom-event", "slurm-srun-oom")
LIMIT_STATES = (
    "slurm-state-oom",
    "k8s-oomkilled",
    "docker-oom-flag",
    "cgroup-v2-oomgroup",
    "batch-memory-limit",
)
# What someone read in the kernel's log or on the platform's page, told in words of their own.
TOLD = ("kernel-oom-said", "platform-memory")
# What someone believes or saw of host memory: it orders what is suspected.
FULL = ("host-memory-full-words", "host-full-more")
STATED = (*FULL, "host-memory-grows-words", "per-rank-words")
_PER_RANK = ("per-rank-words", "per-rank-more")
# Words that name another killer.
RIVALS = (
    "slurm-time",
    "time-limit-words",
    "slurm-preempt",
    "preempt-words",
    "slurm-cancel",
    "batch-owner-kill",
    "container-stop",
    "slurm-signal",
    "slurm-node",
    "torchrun-sigkill-after-term",
    "oomd-pressure",
    "earlyoom-kill",
    "keyboard-interrupt",
)


def check_host_memory(case: Case) -> Iterator[Finding]:
    """A kill for want of host memory, by the word of who killed or of who counts kills.

    The phase and what the processes hold tell which need it was; they prove nothing alone.
    """
    said = case.matches(*KERNEL, *LIMIT, *LIMIT_STATES, *TOLD)
    strong = tuple(hit for hit in said if not outlived(case, hit))
    measured = run_evidence(case)
    if len(strong) < len(said):
        yield from _bystanders(case)
    if not (strong or measured):
        yield from _by_arithmetic(case)
        return
    if case.signal not in {SIGKILL, None}:
        return
    limit = tuple(hit for hit in _limit_matches(case) if not outlived(case, hit))
    is_limit = bool(limit) or reached_limit(case)
    plain = "container-memory-limit" if is_limit else "host-memory-exhausted"
    outcome, why = message_of(case)
    outcome = outcome or plain
    by_ray = case.matches("ray-figures")
    if by_ray and outcome == "host-memory-exhausted":
        outcome, strong = "host-memory-exhausted.ray", (*by_ray, *strong)
    hits = (*_phase_matches(case), *strong)
    more = (*_exit_evidence(case), *measured, *_task_evidence(case), *_number_evidence(case))
    yield make_finding(case, outcome, Status.FAIL, hits, more=more, detail=why)
    if is_limit and outcome != "container-memory-limit":
        yield make_finding(case, "container-memory-limit", Status.WARN, limit, more=measured)


def job_need(case: Case) -> JobNeed | None:
    """What the job that log and facts describe needs of host memory, where it was killed."""
    if case.signal != SIGKILL or no_kill_was_counted(case) or case.log.has(*RIVALS):
        return None
    if not case.log.has(*_OF_JOBS):  # the arithmetic is a quarter of a start: for those that do
        return None
    from envguard.crash.job_need import find_need

    return find_need(case)


def _by_arithmetic(case: Case) -> Iterator[Finding]:
    """A job that needs more than there is, beyond what its plan may be wrong by."""
    need = job_need(case)
    if need is not None and need.is_beyond:
        more = (*_exit_evidence(case), Evidence("host memory", need.words, "arithmetic"))
        hits = (*_phase_matches(case), *case.matches("params-counted", "params-named"))
        yield make_finding(
            case, need.cause, Status.FAIL, hits, more=more, detail=say("{need}.", need=need.words)
        )


def _bystanders(case: Case) -> Iterator[Finding]:
    """Kills of the kernel that this run outlived: the machine was full all the same."""
    hits = case.matches("kernel-oom-global", "kernel-oom-memcg", "kernel-oom-old")
    if hits:
        yield make_finding(case, "host-memory-exhausted.bystander", Status.WARN, hits)


def _limit_matches(case: Case) -> tuple[SignatureMatch, ...]:
    """Lines that say it was a limit and not the machine."""
    hits = case.matches(*LIMIT, *LIMIT_STATES)
    constraint = case.log.first("kernel-oom-constraint")
    if constraint is not None and constraint.groups.get("c") == "CONSTRAINT_MEMCG":
        hits = (*hits, constraint)
    return hits


def message_of(case: Case) -> tuple[str | None, str]:
    """What needed the memory, and what speaks for it beyond the phase."""
    shape = _shape(case)
    if shape == "one":
        return "host-oom-rank0-gather", ""
    match case.phase:
        case Phase.LOAD:
            return _loading(case, shape)
        case Phase.SAVE:
            return "host-oom-save", ""
        case Phase.RESUME:
            return "host-oom-resume", ""
        case Phase.INIT:
            return _initialising(case)
        case _:
            return _training(case)


def _loading(case: Case, shape: str) -> tuple[str, str]:
    if case.log.has(*_PER_RANK):
        return "host-oom-per-rank-load", ""
    if shape == "even":
        return "host-oom-per-rank-load", "The processes are of equal size."
    if case.ranks is not None and case.ranks > 1:
        return "host-oom-per-rank-load", say("{count} ranks ran on this node.", count=case.ranks)
    return "host-oom-load", ""


def _initialising(case: Case) -> tuple[str | None, str]:
    if makes_states(case):
        return "host-oom-optimizer-offload", (
            "The log ends while the optimizer states were made; without offload they are made on "
            "the GPU, where a shortage raises an exception."
        )
    if case.log.has("offload-words"):
        return "host-oom-optimizer-offload", "The log speaks of offload."
    return None, ""


def makes_states(case: Case) -> bool:
    """Whether the log ends while DeepSpeed makes the optimizer's states."""
    begun, done = case.log.last("ds-before-optimizer"), case.log.last("ds-after-optimizer")
    is_open = begun is not None and (done is None or done.order < begun.order)
    return is_open and case.phase is Phase.INIT


def _training(case: Case) -> tuple[str | None, str]:
    if case.log.has("host-memory-grows-words"):
        return "host-oom-growth", ""
    if case.log.has(*_PER_RANK) and case.phase is None:
        return "host-oom-per-rank-load", ""
    if case.log.has("offload-words"):
        return "host-oom-optimizer-offload", "The log speaks of offload."
    return None, ""


def big_tasks(case: Case) -> tuple[Task, ...]:
    """The Python processes of the kernel's table, the largest first."""
    tasks = [t for t in case.log.tasks if t.name.startswith(("python", "pt_main", "ray::"))]
    return tuple(sorted(tasks, key=lambda task: -task.rss_pages))


def _shape(case: Case) -> str:
    """``one`` rank far above its siblings, ``even``, or empty when the table does not tell."""
    sizes = [task.rss_pages * 4096 for task in big_tasks(case)] or measured_sizes(case)
    if len(sizes) < 2 or sizes[0] < _SMALLEST_SHAPE:
        return ""
    if sizes[0] > 4 * sizes[1]:
        return "one"
    return "even" if sizes[0] < 1.5 * sizes[1] else ""


def _phase_matches(case: Case) -> tuple[SignatureMatch, ...]:
    hits = [case.seen.match] if case.seen.match is not None else []
    figure = last_figure(case.log)
    if figure is not None:
        hits.append(figure.hit)
    if case.root_exit is not None and case.root_exit.match is not None:
        hits.append(case.root_exit.match)
    return tuple(hits)


def _exit_evidence(case: Case) -> tuple[Evidence, ...]:
    said = []
    if case.root_exit is not None:
        said.append(Evidence("ending", case.root_exit.status.text, case.root_exit.source))
    if case.phase is not None:
        said.append(Evidence("phase", case.phase.value, case.seen.origin))
    return tuple(said)


def _task_evidence(case: Case) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(f"rss of pid {task.pid}", f"{task.rss_gib:.1f} GiB", f"line {task.line}")
        for task in big_tasks(case)[:4]
    )


def _number_evidence(case: Case) -> tuple[Evidence, ...]:
    """How full the machine was at the last reading in the log."""
    figure, told = last_figure(case.log), case.log.last("host-figure-words")
    if figure is not None:
        return (Evidence("host memory", figure.words, figure.hit.place),)
    return (Evidence("host memory", told.text, told.place),) if told is not None else ()


def check_refused_allocation(case: Case) -> Iterator[Finding]:
    """Host memory that was refused, which ends in an exception and not in a kill."""
    hits = case.matches("cpu-alloc-refused", "python-memoryerror", "std-bad-alloc", "enomem")
    if not hits or case.signal == SIGKILL or case.log.has("memlock-words"):
        return
    offload = case.matches("offload-words", "zero-engine-words")
    if case.phase is Phase.INIT and offload:
        yield make_finding(case, "host-oom-optimizer-offload", Status.FAIL, (*hits, *offload))
        return
    yield make_finding(case, "host-allocation-refused", Status.FAIL, hits)
