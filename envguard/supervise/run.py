"""``envguard run`` without its terminal: record, supervise, watch, and say what came of it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.crash.case import Circumstances
from envguard.crash.diagnose import diagnose
from envguard.crash.memory_use import RunMemory
from envguard.crash.phases import Phase
from envguard.crash.scan import PHASE, search_patterns_of
from envguard.facts.report import Report
from envguard.facts.sentences import say
from envguard.files import is_folder
from envguard.redaction import clean_command
from envguard.supervise.compare import compare_runs, last_that_worked, shorten
from envguard.supervise.guard import CHECKPOINT, DIAGNOSIS, NEIGHBOURS, SEARCH, Guard
from envguard.supervise.job_process import CommandExit, NoRoomError, supervise
from envguard.supervise.output_search import OutputSearch
from envguard.supervise.phase_mark import VARIABLE
from envguard.supervise.run_record import RecordSink, RunRecord, load_record
from envguard.supervise.watching import RunWatcher
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from envguard.facts.facts import Facts
    from envguard.matrix.evidence import SaveMarker, SignalsTable
    from envguard.matrix.loader import Matrix
    from envguard.signatures import SignatureMatch


_PLACE = re.compile(r"Saving model checkpoint to (\S{1,400})")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_OPTIMIZER = ("optimizer.pt", "optimizer.bin")


def find_checkpoint(hits: Iterable[SignatureMatch], cwd: Path) -> Path | None:
    """The folder that the log says was being written last, if it is here."""
    for hit in hits:
        match = _PLACE.search(hit.text)
        if match is not None and is_folder(cwd / match[1]):
            return cwd / match[1]
    return None


def read_marker(folder: Path, table: SignalsTable) -> SaveMarker | None:
    """What the files of a checkpoint folder say about its save; None when it looks whole.

    Args:
        folder: E.g. ``out/checkpoint-500``.
        table: Holds what each observation means.
    """
    name = _observe({path.name for path in folder.iterdir()})
    return next((row for row in table.save_markers if row.id == name), None)


def _observe(names: set[str]) -> str:
    has_weights = any(n.endswith(_WEIGHTS) and n not in _OPTIMIZER for n in names)
    has_optimizer = bool(names & set(_OPTIMIZER)) or any(n.startswith("global_step") for n in names)
    if any(n.endswith(".distcp") for n in names):
        return "" if ".metadata" in names else "dcp_metadata"
    if not has_weights and not has_optimizer:
        return "hf_empty"
    if has_weights and not has_optimizer:
        return "hf_weights_no_optimizer"
    return "" if "trainer_state.json" in names else "hf_trainer_json"


def checkpoint_note(
    hits: Iterable[SignatureMatch], cwd: Path, table: SignalsTable
) -> tuple[str, ...]:
    """A remark on the checkpoint that was being written; empty when there is none to make."""
    folder = find_checkpoint(hits, cwd)
    marker = read_marker(folder, table) if folder is not None else None
    if folder is None or marker is None:
        return ()
    return (f"{folder.name}: {marker.observation}; {marker.means}",)


# What is left to search when the run has ended takes as long as that at most, and a little more.
_PATIENCE_S, _PATIENCE_AFTER_SUCCESS_S = 8.0, 0.5


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of a run.

    Args:
        ended: How the command ended.
        folder: Its record; None where there is none.
        seconds: How long it took.
        memory: Its memory.
        report: The diagnosis; None when it ended well, or could not be made.
    """

    ended: CommandExit
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
) -> RunResult:
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
    return RunResult(ended, record.folder, seconds, watcher.memory, report)


def _cwd() -> Path | None:
    """Where the command starts; None where that folder was removed."""
    try:
        return Path.cwd()
    except OSError:
        return None


def _search(matrix: Matrix | None, guard: Guard, request: RunRequest) -> OutputSearch | None:
    if matrix is None or request.is_direct or not hasattr(os, "fork"):
        return None
    return guard.attempt(SEARCH, OutputSearch, search_patterns_of(matrix))


def _variables(request: RunRequest, record: RecordSink) -> dict[str, str]:
    place = record.phase_file
    return {**request.environ, **({VARIABLE: str(place)} if place else {})}


def _diagnose(
    request: RunRequest,
    ended: CommandExit,
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
        return (
            say(
                "nothing that is recorded changed since run {run}, which worked",
                run=worked.folder.name,
            ),
        )
    return tuple(
        say(
            "changed since run {run}, which worked: {changes}",
            run=worked.folder.name,
            changes=change,
        )
        for change in (changes if is_whole else shorten(changes))
    )


def _end_document(
    ended: CommandExit, seconds: float, watcher: RunWatcher, report: Report | None, guard: Guard
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
