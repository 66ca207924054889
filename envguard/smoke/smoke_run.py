"""Runs the smoke test's child and turns what it left behind into a result."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from envguard.errors import ToolError
from envguard.facts.sentences import say
from envguard.smoke.child_exit import ChildExit, name_exit
from envguard.smoke.limited_process import Completed, run_limited
from envguard.smoke.result import (
    SHUTDOWN,
    ErrorKind,
    OomCounts,
    ProgressReader,
    SmokeRequest,
    SmokeResult,
    Stage,
    StageError,
    StageResult,
    StageStatus,
    choose_stages,
    clean_text,
    describe_memory,
    find_stage,
    read_oom_counts,
    read_side_file,
)
from envguard.values import dataclass

_PYTHON_FRAME = re.compile(r'  File "(.{1,1000})", line ([0-9?]{1,9}) in (.{1,200})')
_NATIVE_FRAME = re.compile(r'  Binary file "(.{1,1000})", at (.{1,500})')
_THREAD = re.compile(r"(Current thread|Thread) 0x[0-9a-f]+.{0,80} \(most recent call first\):")
_MAX_FRAMES = 12
# The handler that writes the dump stands above the place of the crash.
_HANDLER_FRAMES = ("_Py_DumpStack", "faulthandler_", "_PyFaulthandler", "__restore_rt")


def parse_faulthandler(text: str) -> tuple[str, ...]:
    """The stack of the thread that crashed or hangs, innermost frame first.

    Native frames (Python 3.14 prints them) come before Python's own. Not the whole
    text: other threads are left out.

    Args:
        text: Whatever was written to faulthandler's file, or a stderr that holds it.

    Returns:
        ``path:line in function`` and ``library at symbol``; empty when there is no dump.
    """
    native = [
        f"{m[1]} at {m[2]}"
        for m in _NATIVE_FRAME.finditer(text)
        if not m[2].startswith(_HANDLER_FRAMES)
    ]
    return (*native[:_MAX_FRAMES], *_python_frames(text)[:_MAX_FRAMES])


def _python_frames(text: str) -> list[str]:
    sections: list[tuple[bool, list[str]]] = []
    for line in text.splitlines():
        thread = _THREAD.fullmatch(line)
        if thread:
            sections.append((thread[1] == "Current thread", []))
        frame = _PYTHON_FRAME.fullmatch(line)
        if frame and sections:
            sections[-1][1].append(f"{frame[1]}:{frame[2]} in {frame[3]}")
    current = [frames for is_current, frames in sections if is_current]
    # A dump of all threads (a hang) lists the main thread last.
    return current[-1] if current else sections[-1][1] if sections else []


def is_timeout_dump(text: str) -> bool:
    """Whether ``dump_traceback_later`` ended the process because its time was over."""
    return text.startswith("Timeout (") or "\nTimeout (" in text


_CHILD = Path(__file__).with_name("_child.py")
_START_LIMIT_S = 60.0
# The child ends itself at a stage's limit, with a stack dump; this much later it is ended.
_GRACE_S = 3.0
_MAX_FAULTS_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class _Trace:
    """All that a run left behind."""

    progress: ProgressReader
    completed: Completed
    child_exit: ChildExit
    faults: str
    peaks: Mapping[str, int]
    oom: OomCounts
    ended_at: float


def run_smoke(request: SmokeRequest) -> SmokeResult:
    """Run the asked stages in a child of the asked interpreter.

    Never imports torch here. Nothing is written besides a temporary folder that is
    removed afterwards.

    Raises:
        InputError: A stage is not known, or the interpreter cannot be started.
        ToolError: No temporary folder can be made.
    """
    stages = choose_stages(request.stages)
    with _scratch_folder() as folder:
        trace = _trace(request, stages, Path(folder))
    started = bool(trace.progress.start or trace.progress.begins)
    shown = (*stages, SHUTDOWN) if started else stages
    return _result(request, tuple(_stage_result(request, s, trace) for s in shown), trace)


def _scratch_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="envguard-smoke-", ignore_cleanup_errors=True)
    except OSError as err:
        raise ToolError(
            f"no temporary folder can be made: {err.strerror or err}",
            hint="set TMPDIR to a folder that can be written",
        ) from err


def _trace(request: SmokeRequest, stages: tuple[Stage, ...], scratch: Path) -> _Trace:
    progress = ProgressReader(scratch / "progress.jsonl")
    watch = _Watch(request, progress)
    oom_before = read_oom_counts()
    completed = run_limited(
        [request.python, "-B", "-u", str(_CHILD), _plan_text(request, stages, scratch)],
        variables={**os.environ, **dict(request.variables)},
        watch=watch,
        output_cap_bytes=request.output_cap_bytes,
    )
    ended_at = time.monotonic()
    progress.read()
    return _Trace(
        progress=progress,
        completed=completed,
        child_exit=name_exit(completed.returncode),
        faults=read_side_file(scratch / "faults.txt", _MAX_FAULTS_BYTES).decode("utf-8", "replace"),
        peaks=watch.peaks,
        oom=read_oom_counts().since(oom_before),
        ended_at=ended_at,
    )


def _limit_s(request: SmokeRequest, stage: Stage) -> float:
    return stage.limit_s if request.stage_timeout_s is None else request.stage_timeout_s


def _plan_text(request: SmokeRequest, stages: tuple[Stage, ...], scratch: Path) -> str:
    return json.dumps(
        {
            "progress": str(scratch / "progress.jsonl"),
            "faults": str(scratch / "faults.txt"),
            "scratch": str(scratch),
            "device": request.device.text,
            "shutdown_limit_s": _limit_s(request, SHUTDOWN),
            "stages": [
                {"id": stage.id, "needs": stage.needs, "limit_s": _limit_s(request, stage)}
                for stage in stages
            ],
        }
    )


class _Watch:
    """Says when the child's time is over, and notes each stage's peak memory on the way.

    A stage that ends says its own peak; this one is for stages whose process dies.
    """

    def __init__(self, request: SmokeRequest, progress: ProgressReader) -> None:
        self._request = request
        self._progress = progress
        self._started = time.monotonic()
        self.peaks: dict[str, int] = {}

    def __call__(self, pid: int) -> str:
        self._progress.read()
        stage = find_stage(self._progress.current or "")
        # A wrapper script in between has another process id than the interpreter.
        if stage and self._progress.start.get("pid") == pid:
            self.peaks[stage.id] = max(self.peaks.get(stage.id, 0), _resident_bytes(pid))
        now = time.monotonic()
        if now - self._started > self._request.total_timeout_s:
            return f"{self._request.total_timeout_s:g} s, the limit of the whole test"
        limit = _limit_s(self._request, stage) if stage else _START_LIMIT_S
        if now - self._progress.since > limit + _GRACE_S:
            return f"{limit:g} s"
        return ""


def _resident_bytes(pid: int) -> int:
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0  # it has just ended


def _result(request: SmokeRequest, stages: tuple[StageResult, ...], trace: _Trace) -> SmokeResult:
    devices = [end.get("device") for end in trace.progress.ends.values()]
    return SmokeResult(
        python=request.python,
        python_version=_text(trace.progress.start, "python") or None,
        device_asked=request.device,
        device=next((d for d in reversed(devices) if isinstance(d, str)), None),
        stages=stages,
        child_exit=trace.child_exit,
        stopped_for=trace.completed.stopped_for,
        seconds=trace.completed.seconds,
        stdout=trace.completed.stdout,
        stderr=trace.completed.stderr,
        oom=trace.oom,
    )


def _stage_result(request: SmokeRequest, stage: Stage, trace: _Trace) -> StageResult:
    progress = trace.progress
    begin, end = progress.begins.get(stage.id), progress.ends.get(stage.id)
    before = _whole(begin, "rss_bytes")
    if end is not None:
        return _ended(stage, before, end, progress.parts.get(stage.id, ""))
    if begin is None:
        return StageResult(
            stage.id, stage.title, StageStatus.NOT_REACHED, reason="the process had ended"
        )
    is_clean = stage is SHUTDOWN and trace.child_exit.returncode == 0
    return StageResult(
        stage.id,
        stage.title,
        StageStatus.OK if is_clean else StageStatus.FAIL,
        seconds=trace.ended_at - progress.since,
        rss_before_bytes=before,
        rss_peak_bytes=trace.peaks.get(stage.id) or before,
        error=None if is_clean else _exit_error(trace, _limit_s(request, stage)),
        part=progress.parts.get(stage.id, ""),
    )


def _ended(stage: Stage, before: int | None, end: Mapping[str, Any], last_part: str) -> StageResult:
    """The result that the child wrote down; a field of the wrong shape counts as not given."""
    try:
        status = StageStatus(end.get("status"))
    except ValueError:
        status = StageStatus.FAIL
    seconds, details = end.get("seconds"), end.get("details")
    details = details if isinstance(details, dict) else {}
    has_failed = status is StageStatus.FAIL
    return StageResult(
        stage.id,
        stage.title,
        status,
        seconds=float(seconds) if _is_finite(seconds) else None,
        rss_before_bytes=before,
        rss_peak_bytes=_whole(end, "rss_peak_bytes"),
        reason=_text(end, "reason"),
        details=details,
        error=_raised(end.get("error")) if has_failed else None,
        part=last_part if has_failed else "",
        remark="" if has_failed else describe_memory(details),
    )


def _is_finite(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value)


def _raised(error: object) -> StageError:
    record = error if isinstance(error, dict) else {}
    kinds = {kind.value: kind for kind in ErrorKind}
    kind = kinds.get(_text(record, "kind"), ErrorKind.EXCEPTION)
    return StageError(
        kind=kind,
        type=_text(record, "type"),
        message=_text(record, "message"),
        module=_text(record, "module") or None,
        frames=_own_frames(_text(record, "faults")) or _listed_frames(record.get("frames")),
    )


def _listed_frames(frames: object) -> tuple[str, ...]:
    return tuple(clean_text(str(frame)) for frame in frames) if isinstance(frames, list) else ()


def _own_frames(faults: str) -> tuple[str, ...]:
    """What faulthandler wrote, without the frames of the child's own files."""
    found = parse_faulthandler(faults)
    return tuple(frame for frame in found if not frame.startswith(str(_CHILD.parent)))


def _exit_error(trace: _Trace, limit_s: float) -> StageError:
    """Why a stage that began did not end."""
    child_exit, completed = trace.child_exit, trace.completed
    frames = _own_frames(trace.faults) or _own_frames(completed.stderr.text)
    if completed.stopped_for or is_timeout_dump(trace.faults):
        message = say(
            "it did not end within {time}", time=completed.stopped_for or f"{limit_s:g} s"
        )
        if child_exit.returncode is None:
            message = say(
                "{message}, and cannot be ended: it hangs inside the kernel", message=message
            )
        return StageError(ErrorKind.HANG, "", message, frames=frames)
    if child_exit.signal:
        message = say("the process {child_exit}", child_exit=child_exit.text)
        return StageError(ErrorKind.SIGNAL, child_exit.signal, message, frames=frames)
    message = say("the process {child_exit} and left no result", child_exit=child_exit.text)
    return StageError(ErrorKind.EXIT, "", message, frames=frames)


def _whole(record: Mapping[str, Any] | None, key: str) -> int | None:
    value = record.get(key) if record else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    return clean_text(value) if isinstance(value, str) else ""
