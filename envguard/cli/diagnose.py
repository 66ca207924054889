"""``envguard diagnose``: why did it die."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Annotated

import typer

from envguard.cli.options import DEFAULT_TORCH_INDEX, MachineOptions, OutputOptions, takes
from envguard.cli.out import emit_report
from envguard.cli.subject import Subject, read_subject
from envguard.cli.tables import load_matrix
from envguard.crash.case import Circumstances
from envguard.crash.diagnose import diagnose as find_causes
from envguard.crash.flight_recorder import read_dumps, split_dumps
from envguard.crash.phases import Phase, parse_phase
from envguard.errors import InputError
from envguard.facts.facts import Facts
from envguard.ingest.detect import told_facts
from envguard.ingest.plain_text import KeptText
from envguard.redaction import clean_addresses
from envguard.supervise.run_record import find_record, read_log, split_words
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.matrix.loader import Matrix
    from envguard.supervise.run_record import RunRecord


@dataclass(frozen=True, slots=True)
class CrashOptions:
    """What is said of the run beside its log."""

    exit_code: Annotated[
        int | None,
        typer.Option("--exit-code", help="Exit status in any form: -9, 137, 247."),
    ] = None
    phase: Annotated[
        Phase | None, typer.Option("--phase", help="What it was doing; else told from the log.")
    ] = None
    python: Annotated[
        str | None, typer.Option("--python", help="Interpreter of the run, on this machine.")
    ] = None
    source: Annotated[
        str | None, typer.Option("--from", help="A description of the machine that ran it.")
    ] = None


@takes(crash=CrashOptions, machine_options=MachineOptions, output=OutputOptions)
def diagnose(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LOG|-] [DUMP...] [SUBJECT]",
            help="A log, or - for standard input; dumps of torch's flight recorder or a folder of"
            " them; then pins such as torch==2.7.1+cu128.",
        ),
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
    crash: CrashOptions,
    machine_options: MachineOptions,
    output: OutputOptions,
) -> int:
    """Say why a run died, from its log and exit status; with the environment where it is stated."""
    matrix = load_matrix(output.matrix)
    named, pins = split_words(words or ())
    logs, dumps = split_dumps(named)
    if not named and crash.exit_code is None:
        raise InputError(
            "nothing is said of the run: name its log or its exit status",
            hint="envguard diagnose train.log --exit-code -9",
        )
    kept = KeptText()
    log, record = read_log(logs, matrix, kept), find_record(logs)
    told = record.facts if record else told_facts(clean_addresses(kept.text), log.name)
    found = _subject(pins, crash, machine_options, matrix, told)
    report = find_causes(
        log,
        found.facts,
        matrix,
        replace(_circumstances(crash, record), stands=read_dumps(dumps)),
        notes=(*found.notes, *_notes_of(record)),
        torch_index=clean_addresses(torch_index),
    )
    return emit_report(report, output)


def _subject(
    pins: tuple[str, ...],
    crash: CrashOptions,
    options: MachineOptions,
    matrix: Matrix,
    told: Facts | None,
) -> Subject:
    """What is stated of machine and environment, over what record or log tell."""
    if not (pins or crash.source or crash.python or any(astuple(options))):
        return Subject(told or Facts())
    return read_subject(
        pins,
        source=crash.source,
        python=crash.python,
        options=options,
        matrix=matrix,
        is_strict=False,
        told=told,
    )


def _circumstances(crash: CrashOptions, record: RunRecord | None) -> Circumstances:
    if record is None:
        return Circumstances(crash.exit_code, crash.phase)
    code = record.end.get("returncode") if record.end else None
    return Circumstances(
        crash.exit_code if crash.exit_code is not None or not isinstance(code, int) else code,
        crash.phase or parse_phase(record.phase),
        "--phase" if crash.phase else record.phase_origin,
        record.memory,
        record.command,
    )


def _notes_of(record: RunRecord | None) -> tuple[str, ...]:
    if record is None:
        return ()
    from envguard.supervise.run import changes_since  # most logs are no record

    unfinished = record.end is None
    said = ("the record has no end: envguard run was itself killed, or still runs",) * unfinished
    return (*said, *record.lost, *changes_since(record.folder.parent, record.folder))
