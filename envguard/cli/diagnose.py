"""``envguard diagnose``: why did it die."""

from __future__ import annotations

from dataclasses import astuple
from typing import Annotated

import typer

from envguard.cli.options import DEFAULT_TORCH_INDEX, MachineOptions, OutputOptions, takes
from envguard.cli.output import emit_report
from envguard.cli.subject import Subject, read_subject
from envguard.crash.diagnose import diagnose as find_causes
from envguard.crash.phases import Phase, parse_phase
from envguard.crash.record import RunRecord  # noqa: TC001 - kept beside what typer reads
from envguard.crash.running import changes_since
from envguard.crash.sources import find_record, read_log, split_words
from envguard.errors import InputError
from envguard.facts.facts import Facts
from envguard.matrix.loader import Matrix


@takes(machine_options=MachineOptions, output=OutputOptions)
def diagnose(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LOG|-] [SUBJECT]",
            help="A log, or - for standard input; then pins such as torch==2.7.1+cu128.",
        ),
    ] = None,
    exit_code: Annotated[
        int | None,
        typer.Option("--exit-code", help="Exit status in any form: -9, 137, 247."),
    ] = None,
    phase: Annotated[
        Phase | None, typer.Option("--phase", help="What it was doing; else told from the log.")
    ] = None,
    python: Annotated[
        str | None, typer.Option("--python", help="Interpreter of the run, on this machine.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="A description of the machine that ran it.")
    ] = None,
    torch_index: Annotated[
        str,
        typer.Option(
            "--torch-index",
            envvar="ENVGUARD_TORCH_INDEX",
            help="PyTorch index or a mirror, {backend} is filled in.",
        ),
    ] = DEFAULT_TORCH_INDEX,
    *,
    machine_options: MachineOptions,
    output: OutputOptions,
) -> int:
    """Say why a run died, from its log and exit status; with the environment where it is stated."""
    matrix = Matrix.load(output.matrix)
    logs, pins = split_words(words or ())
    if not logs and exit_code is None:
        raise InputError(
            "nothing is said of the run: name its log or its exit status",
            hint="envguard diagnose train.log --exit-code -9",
        )
    log = read_log(logs, matrix.signals)
    record = find_record(logs)
    stated = bool(pins or source or python or is_stated(machine_options))
    found = (
        read_subject(
            pins,
            source=source,
            python=python,
            options=machine_options,
            matrix=matrix,
            is_strict=False,
        )
        if stated
        else Subject(record.facts if record else Facts())
    )
    report = find_causes(
        log,
        found.facts,
        matrix,
        exit_code=exit_code if exit_code is not None else _status_of(record),
        phase=phase or (parse_phase(record.phase) if record else None),
        phase_origin=record.phase_origin if record and phase is None else "--phase",
        memory=record.memory if record else None,
        command=record.command if record else (),
        notes=(*found.notes, *_notes_of(record)),
        torch_index=torch_index,
    )
    return emit_report(report, output)


def _status_of(record: RunRecord | None) -> int | None:
    """The status of a recorded run; None when its record has no end."""
    code = record.end.get("returncode") if record and record.end else None
    return code if isinstance(code, int) else None


def _notes_of(record: RunRecord | None) -> tuple[str, ...]:
    if record is None:
        return ()
    unfinished = record.end is None
    said = ("the record has no end: envguard run was itself killed, or still runs",) * unfinished
    return (*said, *changes_since(record.folder.parent, record.folder))


def is_stated(options: MachineOptions) -> bool:
    """Whether any option states something about a machine."""
    return any(astuple(options))
