"""``envguard diagnose``: why did it die."""

from __future__ import annotations

from dataclasses import astuple
from typing import Annotated

import typer

from envguard.cli.options import DEFAULT_TORCH_INDEX, MachineOptions, OutputOptions, takes
from envguard.cli.output import emit_report
from envguard.cli.subject import Subject, read_subject
from envguard.crash.diagnose import diagnose as find_causes
from envguard.crash.phases import Phase  # noqa: TC001 - typer reads annotations at run time
from envguard.crash.sources import read_log, split_words
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
        str, typer.Option("--torch-index", envvar="ENVGUARD_TORCH_INDEX", help="PyTorch index.")
    ] = DEFAULT_TORCH_INDEX,
    *,
    machine_options: MachineOptions,
    output: OutputOptions,
) -> int:
    """Say why a run died, from its log and exit status; with the environment where it is stated."""
    matrix = Matrix.load(output.matrix)
    logs, pins = split_words(words or ())
    log = read_log(logs, matrix.signals)
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
        else Subject(Facts())
    )
    report = find_causes(
        log,
        found.facts,
        matrix,
        exit_code=exit_code,
        phase=phase,
        notes=found.notes,
        torch_index=torch_index,
    )
    return emit_report(report, output)


def is_stated(options: MachineOptions) -> bool:
    """Whether any option states something about a machine."""
    return any(astuple(options))
