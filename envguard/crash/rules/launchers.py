"""Schedulers, launchers, terminals and daemons that end a run on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.exits import SIGHUP, SIGINT, SIGKILL, SIGTERM
from envguard.crash.rules.model import Outcome, WordRule, apply_words, make_finding
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

HANGUP = Outcome(
    "CRS073",
    "sighup-terminal-closed",
    "the terminal or ssh session was closed",
    "The launcher got SIGHUP and stopped its ranks.",
    "start it under tmux, screen, nohup or the batch system",
)
SUPERVISOR = Outcome(
    "CRS072",
    "sigterm-from-supervisor",
    "something outside asked the launcher to stop",
    "The launcher got SIGTERM: a scheduler, a container's stop, or a person; ranks that end with "
    "-15 follow it.",
    "ask the batch system or the container runtime for the reason (sacct, kubectl describe pod); "
    "where several programs were started together, read the log of the one that ended first",
)
INTERRUPTED = Outcome(
    "CRS075",
    "interrupted",
    "it was interrupted (Ctrl-C or SIGINT)",
    "Nothing failed.",
    "",
)
_WORDS = (
    WordRule(
        Outcome(
            "CRS070",
            "scheduler-time-limit",
            "the batch system's time limit was reached",
            "That is no failure of the program and not about memory.",
            "ask for more time, or save more often and resume",
        ),
        ("slurm-time", "time-limit-words"),
    ),
    WordRule(
        Outcome(
            "CRS071",
            "scheduler-preemption",
            "the batch system took the nodes back",
            "The job was preempted.",
            "requeue it, and resume from the last checkpoint",
        ),
        ("slurm-preempt", "preempt-words"),
    ),
    WordRule(
        Outcome(
            "CRS076",
            "node-failure",
            "a node was lost",
            "The batch system lost a node; that can itself follow from host memory running out.",
            "look at that node's log",
        ),
        ("slurm-node",),
    ),
    WordRule(
        Outcome(
            "CRS072",
            "sigterm-from-supervisor",
            "the job was cancelled",
            "Someone or something cancelled it with a signal.",
            "sacct -o State,ExitCode says by whom",
        ),
        ("slurm-signal",),
    ),
    WordRule(
        Outcome(
            "CRS053",
            "userspace-oom-daemon",
            "a memory daemon of the system killed it",
            "systemd-oomd or earlyoom ends processes before the kernel does; the kernel's log then "
            "holds no word of it.",
            "give the job memory, or take it out of the daemon's reach "
            "(ManagedOOMMemoryPressure=auto)",
        ),
        ("oomd-pressure", "earlyoom-kill"),
    ),
    WordRule(
        Outcome(
            "CRS056",
            "node-memory-eviction",
            "the node was short of memory and evicted the pod",
            "It is the node's memory, not the container's limit.",
            "set requests.memory to what the job needs, so that it is not placed on a full node",
        ),
        ("k8s-evicted",),
        unless=("k8s-evicted-disk", "k8s-evicted-shm"),
    ),
)


def check_launcher_words(case: Case) -> Iterator[Finding]:
    """Words that name the cause."""
    yield from apply_words(_WORDS, case)


def check_asked_to_stop(case: Case) -> Iterator[Finding]:
    """The launcher itself was asked to stop, by a closed terminal, Ctrl-C or a supervisor."""
    hit = case.log.first("torchrun-got-signal")
    number = hit.number("n") if hit is not None else None
    if number is None and case.log.has("sighup-words"):
        hit, number = case.log.first("sighup-words"), SIGHUP
    if number is None and case.signal in {SIGHUP, SIGINT}:
        number = case.signal
    if number is None and case.log.has("keyboard-interrupt"):
        hit, number = case.log.first("keyboard-interrupt"), SIGINT
    outcome = {SIGHUP: HANGUP, SIGINT: INTERRUPTED, SIGTERM: SUPERVISOR}.get(number or 0)
    if outcome is None or (outcome is INTERRUPTED and _died_otherwise(case)):
        return
    hits = (hit,) if hit is not None else ()
    yield make_finding(case, outcome, Status.FAIL, hits)


def _died_otherwise(case: Case) -> bool:
    return case.signal is not None and case.signal != SIGINT


def check_forced_kill(case: Case) -> Iterator[Finding]:
    """The launcher's own SIGKILL after a SIGTERM that was not heeded."""
    hit = case.log.first("torchrun-sigkill-after-term")
    if hit is None or case.signal not in {SIGKILL, None}:
        return
    death = case.death
    if death is not None and death.pid is not None and death.pid != hit.number("pid"):
        return
    yield make_finding(case, FORCED, Status.FAIL, (hit,))


FORCED = Outcome(
    "CRS074",
    "launcher-sigkill-after-sigterm",
    "the launcher killed a rank that did not stop when asked to",
    "This -9 is torchrun's, not the memory killer's: another rank failed first, or the launcher "
    "was asked to stop.",
    "look for what failed before it",
)
