"""Worker processes that were killed while their parent lived on to tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.exits import SIGKILL
from envguard.crash.phases import Phase
from envguard.crash.rules import host_memory as host
from envguard.crash.rules.measured import no_kill_was_counted
from envguard.crash.rules.model import make_finding
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

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
    if case.log.has(*host.KERNEL, *host.LIMIT, *host.LIMIT_STATES, *host.STATED, *host.RIVALS):
        return
    is_running = case.phase is Phase.TRAIN or case.log.has("life-signs")
    outcome = "host-oom-growth.workers" if is_running else "host-memory-exhausted"
    yield make_finding(case, outcome, Status.FAIL, hits[:1], detail=_WHY)
