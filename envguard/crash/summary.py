"""The ``crash`` member of a report: what died, where, and what to collect next time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.exits import SIGKILL, SIGTERM
from envguard.crash.phases import Phase

if TYPE_CHECKING:
    from envguard.crash.case import Case
    from envguard.matrix.signal_rows import LauncherRow

_DOING = {
    Phase.IMPORT: "while it imported",
    Phase.INIT: "while it was set up",
    Phase.LOAD: "while it loaded the model",
    Phase.TRAIN: "while it trained",
    Phase.SAVE: "while it saved a checkpoint",
    Phase.RESUME: "while it read a checkpoint back",
    Phase.SHUTDOWN: "while it ended",
}
_TAIL = 8


def crash_summary(case: Case) -> dict[str, object]:
    """What a reader and a program want to know first.

    Returns:
        ``headline``, the ending, the phase and who says so, the ranks, what to collect next time,
        and the last lines of the log.
    """
    death = case.death
    launcher = find_launcher(case)
    return {
        "headline": headline(case),
        "ending": death.ending.text if death else None,
        "signal": death.ending.name or None if death else None,
        "stated_by": death.source if death else None,
        "rank": death.rank if death else None,
        "phase": case.phase.value if case.phase else None,
        "phase_from": case.seen.origin or None,
        "ranks": case.ranks,
        "launcher": launcher.name if launcher else None,
        "launcher_hides": launcher.truth if launcher else None,
        "followers": count_followers(case),
        "collect": list(collect_next(case)),
        "log": {
            "name": case.log.name,
            "lines": case.log.lines,
            "bytes": case.log.size,
            "ends_mid_line": case.log.ends_mid_line,
            "tail": [{"line": n, "text": text} for n, text in case.log.tail[-_TAIL:]],
        },
    }


def count_followers(case: Case) -> int:
    """Processes that ended with SIGTERM after the root did: they follow it."""
    pids = {death.pid for death in case.deaths[1:] if death.ending.signal == SIGTERM}
    pids |= {hit.number("pid") for hit in case.log.all("torchrun-closing")}
    pids.discard(None)
    return len(pids - {case.death.pid if case.death else None})


def headline(case: Case) -> str:
    """What died, of what, while doing what: ``rank 3 died of SIGKILL (-9) while it trained``."""
    death = case.death
    doing = f" {_DOING[case.phase]}" if case.phase else ""
    if death is None:
        if case.exit_code == 0:
            return "the program ended with exit status 0"
        if case.exit_code is None and not case.log.has("traceback", "python-exception"):
            return "nothing says how the program ended"
        return f"the program failed{doing}"
    who = f"rank {death.rank}" if death.rank is not None else "a process"
    if death.source in {"--exit-code", "shell"}:
        who = "the program"
    verb = "died of" if death.ending.signal is not None else "ended with"
    return f"{who} {verb} {death.ending.text}{doing}"


# Words of a launcher -> its row in the table, the most specific first.
_LAUNCHERS = (
    ("deepspeed-return-code", "deepspeed"),
    ("deepspeed-killing", "deepspeed"),
    ("torchrun-root", "torchrun"),
    ("torchrun-failed-line", "torchrun"),
    ("calledprocess-died", "accelerate-simple"),
    ("mp-spawn-signal", "torch.multiprocessing.spawn"),
    ("dl-exited", "DataLoader"),
    ("slurm-oom-event", "srun"),
    ("slurm-srun-oom", "srun"),
    ("k8s-oomkilled", "kubernetes"),
)


def find_launcher(case: Case) -> LauncherRow | None:
    """The launcher whose words are in the log, and what it does with exit statuses."""
    names = [row for signature, row in _LAUNCHERS if case.log.has(signature)]
    return next((row for row in case.table.launchers if names and row.name == names[0]), None)


# Signal -> the tools of the table that would have kept evidence.
_KILL_TOOLS = ("kernel log (dmesg, journalctl -k)", "cgroup memory.events", "sacct / seff")
_CRASH_TOOLS = ("faulthandler", "kernel log (dmesg, journalctl -k)")
_RANK_TOOL = "torchrun --log-dir --tee 3 / --redirects 3"
_NCCL_TOOL = "NCCL flight recorder"


def collect_next(case: Case) -> tuple[str, ...]:
    """What to keep next time, for an ending that this log does not explain."""
    wanted = ["envguard run -- CMD: phases, memory of each rank, and what the cgroup counted"]
    names: list[str] = []
    if case.signal == SIGKILL:
        names.extend(_KILL_TOOLS)
    elif case.signal is not None and case.signal != SIGTERM:
        names.extend(_CRASH_TOOLS)
    if case.ranks is not None and case.ranks > 1:
        names.append(_RANK_TOOL)
    if case.log.has("nccl-watchdog", "nccl-error-in", "nccl-remote"):
        names.append(_NCCL_TOOL)
    tools = {tool.name: tool for tool in case.table.tools}
    wanted.extend(f"{name}: {tools[name].gives}" for name in names if name in tools)
    if case.log.ends_mid_line:
        wanted.append("the whole log: this one stops in the middle of a line")
    return tuple(wanted)
