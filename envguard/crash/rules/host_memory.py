"""Host memory: SIGKILL with the kernel's word, the task table, samples, or the phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.case import went_on
from envguard.crash.cause_findings import make_finding
from envguard.crash.exits import SIGKILL
from envguard.crash.phases import Phase
from envguard.facts.findings import Evidence, Finding, Status
from envguard.facts.sentences import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.crash.log import Task
    from envguard.signatures import SignatureMatch


_GIB = 2**30
_ORIGIN = "samples of the run"


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
BY_SHAPE_AND_PHASE = (
    "host-oom-load",
    "host-oom-per-rank-load",
    "host-oom-optimizer-offload",
    "host-oom-save",
    "host-oom-rank0-gather",
    "host-oom-resume",
    "host-oom-growth",
)

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
STATED = (
    "host-memory-full-words",
    "host-full-more",
    "kernel-oom-said",
    "host-memory-grows-words",
    "per-rank-words",
)
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
    """A kill for want of host memory: proven, or carried by the phase and what it holds."""
    strong = (*case.matches(*KERNEL, *LIMIT, *LIMIT_STATES), *_stated(case))
    measured = run_evidence(case)
    is_proven = bool(strong or measured)
    is_killed = case.signal == SIGKILL
    if not (is_proven and (is_killed or case.signal is None)) and not is_killed:
        return
    outcome, why = _message_of(case)
    limit = _limit_matches(case)
    if outcome is None and is_proven:
        outcome, why = (
            ("container-memory-limit" if limit or reached_limit(case) else "host-memory-exhausted"),
            "",
        )
    if outcome is None or (case.log.has(*RIVALS) and not is_proven):
        return
    if not is_proven and not _is_carried(case, outcome):
        return
    hits = (*_phase_matches(case), *strong)
    more = (*_exit_evidence(case), *measured, *_task_evidence(case), *_number_evidence(case))
    detail = _joined(why, is_proven=is_proven)
    yield make_finding(case, outcome, Status.FAIL, hits, more=more, detail=detail)
    if (limit or reached_limit(case)) and outcome != "container-memory-limit":
        yield make_finding(case, "container-memory-limit", Status.WARN, limit, more=measured)


def _stated(case: Case) -> tuple[SignatureMatch, ...]:
    """What someone wrote about host memory, unless the run outlived it."""
    hits = case.matches(*STATED)
    if case.signal is None and (case.exit_code == 0 or any(went_on(case, hit) for hit in hits)):
        return ()
    return hits


def _joined(why: str, *, is_proven: bool) -> str:
    if is_proven:
        return why
    return say(
        "{reason} The log holds no word of the kernel: `dmesg` or the cgroup's "
        "memory.events would prove it.",
        reason=why,
    ).strip()


def _limit_matches(case: Case) -> tuple[SignatureMatch, ...]:
    """Lines that say it was a limit and not the machine."""
    hits = case.matches(*LIMIT, *LIMIT_STATES)
    constraint = case.log.first("kernel-oom-constraint")
    if constraint is not None and constraint.groups.get("c") == "CONSTRAINT_MEMCG":
        hits = (*hits, constraint)
    return hits


def _is_carried(case: Case, outcome: str) -> bool:
    """Whether the phase carries the cause without the kernel's word.

    CUDA never kills, so what needs host memory in the phase is the suspect: weights in load,
    gathered or cloned state in save and resume, offloaded states where the engine is built; in
    training offload together with figures of host memory.
    """
    if no_kill_was_counted(case):
        return False
    if case.phase in {Phase.LOAD, Phase.SAVE, Phase.RESUME}:
        return True
    if outcome != "host-oom-optimizer-offload":
        return False
    has_figures = case.log.has("host-figure-words", "ds-host-memory")
    is_training = case.phase is Phase.TRAIN and case.log.has("offload-words") and has_figures
    return case.phase is Phase.INIT or is_training


def _message_of(case: Case) -> tuple[str | None, str]:
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
    begun, done = case.log.last("ds-before-optimizer"), case.log.last("ds-after-optimizer")
    if begun is not None and (done is None or done.order < begun.order):
        return "host-oom-optimizer-offload", (
            "The log ends while the optimizer states were made; without offload they are made on "
            "the GPU, where a shortage raises an exception."
        )
    if case.log.has("offload-words"):
        return "host-oom-optimizer-offload", "The log speaks of offload."
    if case.log.has("deepspeed-words"):
        return (
            "host-oom-optimizer-offload",
            "What takes host memory where DeepSpeed builds its engine is offload.",
        )
    return None, ""


def _training(case: Case) -> tuple[str | None, str]:
    if case.log.has("host-memory-grows-words"):
        return "host-oom-growth", ""
    if case.log.has(*_PER_RANK) and case.phase is None:
        return "host-oom-per-rank-load", ""
    if case.log.has("offload-words"):
        return "host-oom-optimizer-offload", "The log speaks of offload."
    if case.log.has("deepspeed-words") and case.log.has(*STATED):
        return (
            "host-oom-optimizer-offload",
            "What fills host memory under DeepSpeed while it trains is offload.",
        )
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
    last = case.log.last("ds-host-memory")
    if last is not None:
        hits.append(last)
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
    """How large the machine is, from DeepSpeed's figures in GB and percent."""
    hit = case.log.last("ds-host-memory")
    if hit is None or float(hit.groups["percent"]) <= 0:
        return ()
    total = float(hit.groups["used"]) / float(hit.groups["percent"]) * 100
    return (Evidence("host memory", f"about {total:.0f} GiB", hit.place),)


def check_refused_allocation(case: Case) -> Iterator[Finding]:
    """Host memory that was refused, which ends in an exception and not in a kill."""
    hits = case.matches("cpu-alloc-refused", "python-memoryerror", "std-bad-alloc", "enomem")
    if not hits or case.signal == SIGKILL or case.log.has("memlock-words"):
        return
    if case.phase is Phase.INIT and case.log.has("offload-words"):
        yield make_finding(
            case, "host-oom-optimizer-offload", Status.FAIL, (*hits, *case.matches("offload-words"))
        )
        return
    yield make_finding(case, "host-allocation-refused", Status.FAIL, hits)


_WHY = (
    "Only the worker was killed, and its parent lived on to say so: batch systems, container "
    "runtimes and people end the program or the job, memory killers pick one process. The log "
    "holds no word of the kernel: `dmesg` or the cgroup's memory.events would prove it."
)


def check_killed_worker(case: Case) -> Iterator[Finding]:
    """A data loader's worker died of SIGKILL, where nothing else says why."""
    hits = [hit for hit in case.log.all("dl-killed") if hit.groups["s"].strip() == "Killed"]
    if not hits or case.signal != SIGKILL or no_kill_was_counted(case):
        return
    if case.log.has(*KERNEL, *LIMIT, *LIMIT_STATES, *STATED, *RIVALS):
        return
    is_running = case.phase is Phase.TRAIN or case.log.has("life-signs")
    outcome = "host-oom-growth.workers" if is_running else "host-memory-exhausted"
    yield make_finding(case, outcome, Status.FAIL, hits[:1], detail=_WHY)
