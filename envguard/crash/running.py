"""``envguard run`` without its terminal: record, supervise, and say what came of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.crash.case import Circumstances
from envguard.crash.checkpoint import checkpoint_note
from envguard.crash.compare import compare_runs, last_that_worked, shorten
from envguard.crash.context import gather_context
from envguard.crash.diagnose import diagnose
from envguard.crash.memory_use import RunMemory
from envguard.crash.phase_mark import VARIABLE
from envguard.crash.phases import Phase
from envguard.crash.record import PHASES, RunWriter, load_record, new_run_id
from envguard.crash.scan import PHASE
from envguard.crash.supervise import Ended, supervise
from envguard.crash.watching import RunWatcher
from envguard.facts.report import Report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from envguard.facts.facts import Facts
    from envguard.matrix.loader import Matrix


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What came of a run.

    Args:
        ended: How the command ended.
        folder: Its record.
        seconds: How long it took.
        memory: Its memory.
        report: The diagnosis; None when it ended well.
    """

    ended: Ended
    folder: Path
    seconds: float
    memory: RunMemory
    report: Report | None


def run_command(
    command: Sequence[str],
    facts: Facts,
    matrix: Matrix,
    *,
    root: Path,
    environ: Mapping[str, str],
    is_direct: bool = False,
    torch_index: str,
) -> RunOutcome:
    """Run a command under supervision, keep a record, and diagnose a failure.

    Args:
        command: Program and arguments.
        facts: Machine and environment before the start.
        matrix: The tables.
        root: Folder of the records.
        environ: Environment of the command.
        is_direct: Read nothing of its output.
        torch_index: Template of the PyTorch index, for what the diagnosis recommends.

    Raises:
        InputError: The record cannot be written.
    """
    writer = RunWriter(root / new_run_id())
    context = gather_context(command, environ, facts, Path.cwd())
    writer.begin(context)
    watcher = RunWatcher(writer, matrix.signals)
    begun = time.monotonic()
    variables = {**environ, VARIABLE: str((writer.folder / PHASES).resolve())}
    ended = supervise(command, watcher, environ=variables, is_direct=is_direct)
    seconds = time.monotonic() - begun
    watcher.finish()
    report = None
    if ended.status:
        report = diagnose(
            watcher.scanner.finish("output"),
            facts,
            matrix,
            Circumstances(
                ended.returncode,
                watcher.phase,
                watcher.phase_origin,
                watcher.memory,
                context.command,
            ),
            notes=(*_checkpoint(watcher, matrix), *changes_since(root, writer.folder)),
            torch_index=torch_index,
        )
    writer.end(_end_document(ended, seconds, watcher, report))
    return RunOutcome(ended, writer.folder, seconds, watcher.memory, report)


def _checkpoint(watcher: RunWatcher, matrix: Matrix) -> tuple[str, ...]:
    if watcher.phase is not Phase.SAVE:
        return ()
    hit = watcher.scanner.latest([f"{PHASE}save"])
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
    run = load_record(folder)
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
    ended: Ended, seconds: float, watcher: RunWatcher, report: Report | None
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
        "verdict": report.verdict.value if report else "ok",
        "root_cause": report.root_cause if report else None,
    }
