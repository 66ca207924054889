"""Runs the smoke test's child and turns what it left behind into a result."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envguard.smoke.endings import Ending, name_ending
from envguard.smoke.frames import is_timeout_dump, parse_faulthandler
from envguard.smoke.process import Completed, run_limited
from envguard.smoke.progress import ProgressReader
from envguard.smoke.result import (
    ErrorKind,
    SmokeRequest,
    SmokeResult,
    StageError,
    StageResult,
    StageStatus,
)
from envguard.smoke.stages import SHUTDOWN, Stage, choose_stages, find_stage

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHILD = Path(__file__).with_name("_child.py")
_START_LIMIT_S = 60.0
# The child ends itself at a stage's limit, with a stack dump; this much later it is ended.
_GRACE_S = 3.0
_MAX_FAULTS_BYTES = 256 * 1024


def run_smoke(request: SmokeRequest) -> SmokeResult:
    """Run the asked stages in a child of the asked interpreter.

    Never imports torch here. Nothing is written besides a temporary folder that is
    removed afterwards.

    Raises:
        InputError: A stage is not known, or the interpreter cannot be started.
    """
    stages = choose_stages(request.stages)
    with tempfile.TemporaryDirectory(
        prefix="envguard-smoke-", ignore_cleanup_errors=True
    ) as folder:
        scratch = Path(folder)
        progress = ProgressReader(scratch / "progress.jsonl")
        completed = run_limited(
            [request.python, "-B", "-u", str(_CHILD), _plan_text(request, stages, scratch)],
            variables={**os.environ, **dict(request.variables)},
            watch=_Watch(request, progress),
            output_cap_bytes=request.output_cap_bytes,
        )
        progress.read()
        faults = _read_head(scratch / "faults.txt")
    return _result(request, stages, progress, completed, faults)


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
    """Says when the child's time is over."""

    def __init__(self, request: SmokeRequest, progress: ProgressReader) -> None:
        self._request = request
        self._progress = progress
        self._started = time.monotonic()

    def __call__(self, pid: int) -> str:
        self._progress.read()
        now = time.monotonic()
        if now - self._started > self._request.total_timeout_s:
            return f"the whole test's limit of {self._request.total_timeout_s:g} s"
        stage = find_stage(self._progress.current or "")
        limit = _limit_s(self._request, stage) if stage else _START_LIMIT_S
        if now - self._progress.since > limit + _GRACE_S:
            return f"the limit of {limit:g} s"
        return ""


def _read_head(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_FAULTS_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _result(
    request: SmokeRequest,
    stages: tuple[Stage, ...],
    progress: ProgressReader,
    completed: Completed,
    faults: str,
) -> SmokeResult:
    ending = name_ending(completed.returncode)
    all_stages = (*stages, SHUTDOWN) if progress.start else stages
    results = tuple(
        _stage_result(stage, progress, ending, completed, faults) for stage in all_stages
    )
    devices = [end.get("device") for end in progress.ends.values()]
    python = progress.start.get("python")
    return SmokeResult(
        python=request.python,
        python_version=python if isinstance(python, str) else None,
        device_asked=request.device,
        device=next((d for d in reversed(devices) if isinstance(d, str)), None),
        stages=results,
        ending=ending,
        stopped_for=completed.stopped_for,
        seconds=completed.seconds,
        stdout=completed.stdout,
        stderr=completed.stderr,
    )


def _stage_result(
    stage: Stage, progress: ProgressReader, ending: Ending, completed: Completed, faults: str
) -> StageResult:
    begin, end = progress.begins.get(stage.id), progress.ends.get(stage.id)
    before = _whole(begin, "rss_bytes")
    if end is not None:
        return _ended(stage, before, end)
    if begin is None:
        reason = "the process had ended" if progress.start else "the interpreter did not start"
        return StageResult(stage.id, stage.title, StageStatus.NOT_REACHED, reason=reason)
    seconds = time.monotonic() - progress.since
    if stage is SHUTDOWN and ending.returncode == 0:
        return StageResult(stage.id, stage.title, StageStatus.OK, seconds, before)
    error = _death(ending, completed, faults)
    return StageResult(stage.id, stage.title, StageStatus.FAIL, seconds, before, error=error)


def _ended(stage: Stage, before: int | None, end: Mapping[str, Any]) -> StageResult:
    """The result that the child wrote down; a field of the wrong shape counts as not given."""
    try:
        status = StageStatus(end.get("status"))
    except ValueError:
        status = StageStatus.FAIL
    seconds, details = end.get("seconds"), end.get("details")
    return StageResult(
        stage.id,
        stage.title,
        status,
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        rss_before_bytes=before,
        rss_peak_bytes=_whole(end, "rss_peak_bytes"),
        reason=_text(end, "reason"),
        details=details if isinstance(details, dict) else {},
        error=_raised(end.get("error")) if status is StageStatus.FAIL else None,
    )


def _raised(error: object) -> StageError:
    record = error if isinstance(error, dict) else {}
    kinds = {kind.value: kind for kind in ErrorKind}
    frames = record.get("frames")
    return StageError(
        kind=kinds.get(_text(record, "kind"), ErrorKind.EXCEPTION),
        type=_text(record, "type"),
        message=_text(record, "message"),
        module=_text(record, "module") or None,
        frames=tuple(map(str, frames)) if isinstance(frames, list) else (),
    )


def _death(ending: Ending, completed: Completed, faults: str) -> StageError:
    """Why a stage that began did not end."""
    frames = parse_faulthandler(faults) or parse_faulthandler(completed.stderr.text)
    if completed.stopped_for or is_timeout_dump(faults):
        over = completed.stopped_for or "its time limit"
        text = "it cannot be ended: it hangs inside the kernel" if ending.returncode is None else ""
        message = f"no end within {over}" + (f"; {text}" if text else "")
        return StageError(ErrorKind.HANG, "", message, frames=frames)
    if ending.signal:
        return StageError(
            ErrorKind.SIGNAL, ending.signal, f"the process {ending.text}", None, frames
        )
    return StageError(ErrorKind.EXIT, "", f"the process {ending.text} without a word", None, frames)


def _whole(record: Mapping[str, Any] | None, key: str) -> int | None:
    value = record.get(key) if record else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""
