"""``envguard run``: supervise a training command, keep the evidence, explain a failure."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from envguard.cli.options import DEFAULT_TORCH_INDEX
from envguard.cli.out import write_text
from envguard.cli.subject import live_facts
from envguard.cli.tables import load_matrix
from envguard.errors import EnvguardError, ExitCode, InputError
from envguard.facts.facts import Facts
from envguard.facts.gaps import Gap, GapReason
from envguard.printable import one_line, printable, printable_in_colour
from envguard.render import Style, render_report
from envguard.supervise.guard import PROBE, REPORT, TABLES, Guard, write_to_stderr
from envguard.supervise.job_process import CAN_DIE_WITH_PARENT, NoRoomError, with_shell
from envguard.supervise.run import RunRequest, RunResult, run_command
from envguard.supervise.run_record import interpreter_of
from envguard.supervise.streams import occupy_standard_streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envguard.matrix.loader import Matrix

# Everything from the first word on belongs to the command that is run.
CONTEXT_SETTINGS = {"allow_interspersed_args": False}


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
    die_with_parent: Annotated[
        bool,
        typer.Option(
            "--die-with-parent", help="Kill the command if I am killed, also by kill -9 (Linux)."
        ),
    ] = False,
    probe: Annotated[
        bool, typer.Option("--probe/--no-probe", help="Record machine and environment first.")
    ] = True,
    compare: Annotated[
        bool, typer.Option("--compare", help="Show what changed since the last run that worked.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Say nothing of my own but what was lost.")
    ] = False,
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
    if die_with_parent and not CAN_DIE_WITH_PARENT:
        raise InputError("--die-with-parent: only Linux can do that")
    occupy_standard_streams()
    _forget_coerced_locale()
    status = _unstartable(command[0], os.environ.get("PATH"))
    if status is not None:
        return status
    guard = Guard()
    facts = guard.attempt(PROBE, _facts, command) if probe else None
    matrix = _tables(matrix_folder, guard)
    request = RunRequest(
        command, record, os.environ, DEFAULT_TORCH_INDEX, direct, dies_with_us=die_with_parent
    )
    try:
        outcome = run_command(request, facts or Facts(), matrix, guard)
    except NoRoomError as err:
        return _run_alone(command, err)
    status = outcome.ended.status
    try:
        _say(outcome, guard, is_quiet=quiet)
    except Exception:  # noqa: BLE001 - whatever fails here, the status is the command's
        os.write(2, b"envguard run: what was found could not be told\n")
    return status


def _forget_coerced_locale() -> None:
    """Take back what the interpreter put into the environment for itself: it is not the job's.

    Source: PEP 538, which sets LC_CTYPE where the locale is C.
    """
    with contextlib.suppress(OSError):  # only Linux tells with what a process was started
        started = Path("/proc/self/environ").read_bytes()
        if b"\0LC_CTYPE=" not in b"\0" + started:
            os.environ.pop("LC_CTYPE", None)


def _unstartable(program: str, path: str | None) -> int | None:
    """A shell's status for a program that is not there (127) or not executable (126), said."""
    if shutil.which(program, path=path) is not None:
        return None
    is_there = os.sep in program and Path(program).exists()
    what = "cannot be executed" if is_there else "command not found"
    _say_line(f"{program}: {what}")
    return 126 if is_there else 127


def _facts(command: Sequence[str]) -> Facts:
    """Machine and environment; a run is not kept from starting because they cannot be read."""
    try:
        return live_facts(interpreter_of(command, os.environ.get("PATH")))
    except EnvguardError as err:
        return Facts(gaps=(Gap("environment", GapReason.UNREADABLE, "probe", err.message),))


def _tables(folder: Path | None, guard: Guard) -> Matrix | None:
    """The tables; those that the user brought are refused if they are wrong, before the start."""
    return guard.attempt(TABLES, load_matrix, None) if folder is None else load_matrix(folder)


def _run_alone(command: Sequence[str], err: NoRoomError) -> int:
    """Become the command, where there is no room to run it beside this process."""
    _say_line(f"the command runs without me, as there is no room for two: {err}")
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores these
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    for words in (list(command), with_shell(command, os.environ)):
        try:
            os.execvp(words[0], words)  # noqa: S606 - no shell is what is wanted
        except OSError as failure:
            if failure.errno != errno.ENOEXEC:
                _say_line(f"{words[0]}: {failure.strerror}")
                return 127 if isinstance(failure, FileNotFoundError) else 126
    return 126


def _say(outcome: RunResult, guard: Guard, *, is_quiet: bool) -> None:
    """The diagnosis or the peaks, and in one line what of envguard's own work was lost."""
    if outcome.ended.refusal:
        _say_line(outcome.ended.refusal)
    elif not is_quiet:
        with guard.keeping_status():
            text = guard.attempt(REPORT, describe_result, outcome)
        write_to_stderr(printable_in_colour(text or ""))
    if guard.line:
        _say_line(guard.line)


def _say_line(text: str) -> None:
    write_to_stderr(f"envguard run: {' '.join(printable(text).split())}\n")


def describe_result(outcome: RunResult) -> str:
    """The diagnosis of a failure, or the peaks of a success."""
    place = f"record: {one_line(str(outcome.folder))}" if outcome.folder else "no record"
    if outcome.report is not None:
        is_terminal = sys.stderr is not None and sys.stderr.isatty()  # None: it is closed
        style = Style(is_coloured=is_terminal and not os.environ.get("NO_COLOR"))
        return f"{render_report(outcome.report, 'text', style)}{place}\n"
    how = f"ended with status {outcome.ended.status}" if outcome.ended.status else "ended well"
    text = f"envguard run: {how} after {_time(outcome.seconds)}{_peaks(outcome)}; {place}"
    return f"{printable(text)}\n"


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes else f"{seconds:.1f} s"


def _peaks(outcome: RunResult) -> str:
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
    from envguard.supervise.run import changes_since
    from envguard.supervise.run_record import list_records

    records = list_records(root)
    if not records:
        raise InputError(f"{root}: holds no record of a run")
    changes = changes_since(root, records[-1], is_whole=True)
    nothing = f"no run of this job before {records[-1].name} worked: nothing to compare with"
    for line in changes or (nothing,):
        write_text(line, None)
    return ExitCode.FITS
