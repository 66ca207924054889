"""``envguard run``: supervise a training command, keep the evidence, explain a failure."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from envguard.cli.options import DEFAULT_TORCH_INDEX
from envguard.cli.output import talk, write_text
from envguard.cli.subject import live_facts
from envguard.cli.tables import load_matrix
from envguard.crash.context import interpreter_of
from envguard.crash.running import RunOutcome, run_command
from envguard.errors import EnvguardError, ExitCode, InputError
from envguard.facts.facts import Facts
from envguard.facts.gaps import Gap, GapReason
from envguard.render import Style, render_report

if TYPE_CHECKING:
    from collections.abc import Sequence

# Everything from the first word on belongs to the command that is run.
CONTEXT_SETTINGS = {"allow_interspersed_args": False, "ignore_unknown_options": True}


def run(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- CMD...", help="The command to run.")
    ] = None,
    record: Annotated[Path, typer.Option("--record", help="Folder of the records.")] = Path(
        ".envguard/runs"
    ),
    direct: Annotated[
        bool, typer.Option("--direct", help="Read nothing of its output: no phases from the log.")
    ] = False,
    probe: Annotated[
        bool, typer.Option("--probe/--no-probe", help="Record machine and environment first.")
    ] = True,
    compare: Annotated[
        bool, typer.Option("--compare", help="Show what changed since the last run that worked.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing of my own.")] = False,
    matrix_folder: Annotated[
        Path | None, typer.Option("--matrix", help="Folder of tables to use instead.")
    ] = None,
) -> int:
    """Run a command untouched, keep what it needs to be explained, and explain it if it fails.

    Exits with the command's own status, 128+n when it died of signal n.
    """
    if compare:
        return show_changes(record)
    if not command:
        raise InputError("run: no command is given", hint="envguard run -- python train.py")
    status = _unstartable(command[0], os.environ.get("PATH"))
    if status is not None:
        return status
    facts = _facts(command) if probe else Facts()
    outcome = run_command(
        command,
        facts,
        load_matrix(matrix_folder),
        root=record,
        environ=os.environ,
        is_direct=direct,
        torch_index=DEFAULT_TORCH_INDEX,
    )
    if not quiet:
        talk(describe_outcome(outcome), is_ended=True)
    return outcome.ended.status


def _unstartable(program: str, path: str | None) -> int | None:
    """A shell's status for a program that is not there (127) or not executable (126), said."""
    if shutil.which(program, path=path) is not None:
        return None
    is_there = os.sep in program and Path(program).exists()
    what = "cannot be executed" if is_there else "command not found"
    talk(f"envguard run: {program}: {what}")
    return 126 if is_there else 127


def _facts(command: Sequence[str]) -> Facts:
    """Machine and environment; a run is not kept from starting because they cannot be read."""
    try:
        return live_facts(interpreter_of(command, os.environ.get("PATH")))
    except EnvguardError as err:
        return Facts(gaps=(Gap("environment", GapReason.UNREADABLE, "probe", err.message),))


def describe_outcome(outcome: RunOutcome) -> str:
    """The diagnosis of a failure, or the peaks of a success."""
    place = f"record: {outcome.folder}"
    if outcome.report is not None:
        style = Style(is_coloured=sys.stderr.isatty() and not os.environ.get("NO_COLOR"))
        return f"{render_report(outcome.report, 'text', style)}{place}\n"
    return f"envguard run: ended well after {_time(outcome.seconds)}{_peaks(outcome)}; {place}\n"


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes else f"{seconds:.1f} s"


def _peaks(outcome: RunOutcome) -> str:
    memory = outcome.memory
    if not memory.peak_bytes:
        return ""
    phase = f" in {memory.peak_phase}" if memory.peak_phase else ""
    text = f"; host memory peak {memory.peak_bytes / 2**30:.2f} GiB{phase}"
    if memory.cgroup_limit_bytes:
        text += f" of {memory.cgroup_limit_bytes / 2**30:.1f} GiB allowed"
    workers = memory.workers()
    if len(workers) > 1:
        text += f", {workers[0].peak_bytes / 2**30:.2f} GiB in the largest of {len(workers)} ranks"
    for gpu, peak in sorted(memory.gpu_peaks.items()):
        text += f"; GPU {gpu} {peak / 2**30:.2f} GiB"
    return text


def show_changes(root: Path) -> int:
    """Compare the newest run with the last one that worked before it."""
    from envguard.crash.record import list_records
    from envguard.crash.running import changes_since

    records = list_records(root)
    if not records:
        raise InputError(f"{root}: holds no record of a run")
    changes = changes_since(root, records[-1], is_whole=True)
    nothing = f"no run of this job before {records[-1].name} worked: nothing to compare with"
    for line in changes or (nothing,):
        write_text(line, None)
    return ExitCode.FITS
