"""``envguard run`` without its terminal: record, supervise, and say what came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.crash.case import Circumstances
from envguard.crash.checkpoint import checkpoint_note
from envguard.crash.compare import compare_runs, last_that_worked, shorten
from envguard.crash.diagnose import diagnose
from envguard.crash.guard import CHECKPOINT, DIAGNOSIS, NEIGHBOURS, SEARCH, Guard
from envguard.crash.memory_use import RunMemory
from envguard.crash.output_search import OutputSearch
from envguard.crash.phase_mark import VARIABLE
from envguard.crash.phases import Phase
from envguard.crash.record import RunRecord, load_record
from envguard.crash.scan import PHASE, marks_of
from envguard.crash.sink import RecordSink
from envguard.crash.starting import NoRoomError
from envguard.crash.supervise import Ended, supervise
from envguard.crash.watching import RunWatcher
from envguard.facts.report import Report
from envguard.redaction import clean_command

if TYPE_CHECKING:
    from envguard.facts.facts import Facts
    from envguard.matrix.loader import Matrix

# What is left to search when the run has ended takes as long as that at most, and a little more.
_PATIENCE_S, _PATIENCE_AFTER_SUCCESS_S = 8.0, 0.5


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What came of a run.

    Args:
        ended: How the command ended.
        folder: Its record; None where there is none.
        seconds: How long it took.
        memory: Its memory.
        report: The diagnosis; None when it ended well, or could not be made.
    """

    ended: Ended
    folder: Path | None
    seconds: float
    memory: RunMemory
    report: Report | None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What is to be run, and how.

    Args:
        command: Program and arguments.
        root: Folder of the records.
        environ: Environment of the command.
        torch_index: Template of the PyTorch index, for what the diagnosis recommends.
        is_direct: Read nothing of its output.
        dies_with_us: Have the kernel kill the command when this process dies.
    """

    command: Sequence[str]
    root: Path
    environ: Mapping[str, str]
    torch_index: str
    is_direct: bool = False
    dies_with_us: bool = False


def run_command(
    request: RunRequest, facts: Facts, matrix: Matrix | None, guard: Guard
) -> RunOutcome:
    """Run a command under supervision, keep a record, and diagnose a failure.

    Args:
        request: What to run.
        facts: Machine and environment before the start.
        matrix: The tables; None where they cannot be read.
        guard: Remembers what of all this failed; nothing of it keeps the command from running.

    Raises:
        NoRoomError: There is no room to run it beside this process.
    """
    record = RecordSink(request.root, guard)
    record.begin(request.command, request.environ, facts, _cwd())
    watcher = RunWatcher(record, _search(matrix, guard, request), guard)
    begun = time.monotonic()
    try:
        ended = supervise(
            request.command,
            watcher,
            environ=_variables(request, record),
            is_direct=request.is_direct,
            dies_with_us=request.dies_with_us,
        )
    except NoRoomError:
        watcher.give_up()
        raise
    seconds = time.monotonic() - begun
    with guard.keeping_status():
        watcher.finish(_PATIENCE_S if ended.status else _PATIENCE_AFTER_SUCCESS_S)
        report = None
        if ended.status and not ended.refusal and matrix is not None:
            report = guard.attempt(
                DIAGNOSIS, _diagnose, request, ended, facts, matrix, watcher, record, guard
            )
        record.end(_end_document(ended, seconds, watcher, report, guard))
    return RunOutcome(ended, record.folder, seconds, watcher.memory, report)


def _cwd() -> Path | None:
    """Where the command starts; None where that folder was removed."""
    try:
        return Path.cwd()
    except OSError:
        return None


def _search(matrix: Matrix | None, guard: Guard, request: RunRequest) -> OutputSearch | None:
    if matrix is None or request.is_direct or not hasattr(os, "fork"):
        return None
    return guard.attempt(SEARCH, OutputSearch, marks_of(matrix))


def _variables(request: RunRequest, record: RecordSink) -> dict[str, str]:
    place = record.phase_file
    return {**request.environ, **({VARIABLE: str(place)} if place else {})}


def _diagnose(
    request: RunRequest,
    ended: Ended,
    facts: Facts,
    matrix: Matrix,
    watcher: RunWatcher,
    record: RecordSink,
    guard: Guard,
) -> Report:
    known = Circumstances(
        ended.returncode,
        watcher.phase,
        watcher.phase_origin,
        watcher.memory,
        clean_command(request.command),
    )
    checkpoint = guard.attempt(CHECKPOINT, _checkpoint, watcher, matrix) or ()
    changes = guard.attempt(NEIGHBOURS, compare_with_earlier, request.root, record.in_memory())
    notes = (*checkpoint, *(changes or ()))
    return diagnose(watcher.log, facts, matrix, known, notes=notes, torch_index=request.torch_index)


def _checkpoint(watcher: RunWatcher, matrix: Matrix) -> tuple[str, ...]:
    if watcher.phase is not Phase.SAVE:
        return ()
    hit = watcher.log.last(f"{PHASE}save")
    return checkpoint_note([hit] if hit else [], Path.cwd(), matrix.signals)


def changes_since(root: Path, folder: Path, *, is_whole: bool = False) -> tuple[str, ...]:
    """What is different from the last run of this job that worked, as remarks.

    Args:
        root: Folder of the records.
        folder: The run's record.
        is_whole: All of it, however much that is.

    Returns:
        One remark for each change; empty when no run of this job worked before.
    """
    return compare_with_earlier(root, load_record(folder), is_whole=is_whole)


def compare_with_earlier(root: Path, run: RunRecord, *, is_whole: bool = False) -> tuple[str, ...]:
    """Like :func:`changes_since`, for a run that is in memory."""
    worked = last_that_worked(root, run)
    if worked is None:
        return ()
    changes = compare_runs(worked, run)
    if not changes:
        return (f"nothing that is recorded changed since run {worked.folder.name}, which worked",)
    return tuple(
        f"changed since run {worked.folder.name}, which worked: {change}"
        for change in (changes if is_whole else shorten(changes))
    )


def _end_document(
    ended: Ended, seconds: float, watcher: RunWatcher, report: Report | None, guard: Guard
) -> dict[str, object]:
    memory = watcher.memory
    return {
        "status": ended.status,
        "returncode": ended.returncode,
        "ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(seconds, 2),
        "phase": watcher.phase_name,
        "peaks": {
            "host_bytes": memory.peak_bytes,
            "host_phase": memory.peak_phase,
            "by_phase": dict(memory.phase_peaks),
            "cgroup_bytes": memory.cgroup_peak_bytes,
            "shm_bytes": memory.shm_peak_bytes,
            "gpu_bytes": {str(gpu): peak for gpu, peak in memory.gpu_peaks.items()},
            "ranks": [
                {"rank": use.rank, "pid": use.pid, "host_bytes": use.peak_bytes}
                for use in memory.workers()
            ],
        },
        "verdict": report.verdict.value if report else ("unknown" if ended.status else "ok"),
        "root_cause": report.root_cause if report else None,
        "unsearched_bytes": watcher.unsearched_bytes,
        "lost": dict(guard.lost),
    }
