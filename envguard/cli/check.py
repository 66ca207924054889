"""``envguard check``: will it run here."""

from __future__ import annotations

from typing import Annotated

import typer

from envguard.checks.context import CheckOptions
from envguard.cli.options import (
    DEFAULT_TORCH_INDEX,
    MachineOptions,
    OutputOptions,
    is_exact_fit,
    takes,
)
from envguard.cli.output import emit_report
from envguard.cli.subject import read_subject
from envguard.cli.tables import load_matrix
from envguard.judge import judge


@takes(machine_options=MachineOptions, output=OutputOptions)
def check(
    subject: Annotated[
        list[str] | None, typer.Argument(help="Pins such as torch==2.7.1+cu128, or a lockfile.")
    ] = None,
    python: Annotated[
        str | None, typer.Option("--python", help="Another interpreter on this machine.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", help="A facts document, collect_env or nvidia-smi text; - is stdin."
        ),
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep/--no-deep", help="Also read the installed machine code.")
    ] = True,
    require_gpu: Annotated[
        bool, typer.Option("--require-gpu", help="No usable GPU is a failure.")
    ] = False,
    driver_fit: Annotated[
        str, typer.Option("--driver-fit", help="Grade that is good enough: exact or same-major.")
    ] = "same-major",
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
    """Say whether an environment runs on a machine, and what would.

    Without a subject, the interpreter that envguard runs in is judged on this machine.
    """
    options = CheckOptions(require_gpu=require_gpu, exact_driver=is_exact_fit(driver_fit))
    matrix = load_matrix(output.matrix)
    found = read_subject(
        subject or (),
        source=source,
        python=python,
        options=machine_options,
        matrix=matrix,
        is_deep=deep,
    )
    report = judge(found.facts, matrix, options, notes=found.notes, torch_index=torch_index)
    return emit_report(report, output)
