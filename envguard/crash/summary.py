"""The ``crash`` member of a report: what died, where, and what to collect next time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.exits import SIGKILL, SIGTERM
from envguard.crash.phases import Phase

if TYPE_CHECKING:
    from envguard.crash.case import Case

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
    return {
        "headline": headline(case),
        "ending": death.ending.text if death else None,
        "signal": death.ending.name or None if death else None,
        "stated_by": death.source if death else None,
        "rank": death.rank if death else None,
        "phase": case.phase.value if case.phase else None,
        "phase_from": case.seen.origin or None,
        "ranks": case.ranks,
        "collect": list(collect_next(case)),
        "log": {
            "name": case.log.name,
            "lines": case.log.lines,
            "bytes": case.log.size,
            "ends_mid_line": case.log.ends_mid_line,
            "tail": [{"line": n, "text": text} for n, text in case.log.tail[-_TAIL:]],
        },
    }


def headline(case: Case) -> str:
    """What died, of what, while doing what: ``rank 3 died of SIGKILL (-9) while it trained``."""
    death = case.death
    doing = f" {_DOING[case.phase]}" if case.phase else ""
    if death is None:
        if case.exit_code in {None, 0} and not case.log.has("traceback", "python-exception"):
            return f"nothing says that a process died{doing}"
        return f"the program failed{doing}"
    who = f"rank {death.rank}" if death.rank is not None else "a process"
    if death.source in {"--exit-code", "shell"}:
        who = "the program"
    verb = "died of" if death.ending.signal is not None else "ended with"
    return f"{who} {verb} {death.ending.text}{doing}"


def collect_next(case: Case) -> tuple[str, ...]:
    """What to keep next time, for an ending that this log does not explain."""
    wanted = ["run it under `envguard run -- CMD`: it keeps phases, memory by rank and the kills"]
    if case.signal == SIGKILL:
        wanted.append("`dmesg -T` or `journalctl -k` right after it, as far as you may read them")
        wanted.append("sacct -o State,ExitCode,MaxRSS, or kubectl describe pod")
    elif case.signal is not None and case.signal != SIGTERM:
        wanted.append("PYTHONFAULTHANDLER=1: Python stacks of all threads at the crash")
        wanted.append("`dmesg -T`: the library of a segfault (only without faulthandler), Xids")
    if case.ranks is not None and case.ranks > 1:
        wanted.append("torchrun --log-dir DIR --tee 3: the output of each rank by itself")
    if case.log.ends_mid_line:
        wanted.append("the whole log: this one stops in the middle of a line")
    return tuple(wanted)
