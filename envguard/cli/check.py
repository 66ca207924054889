"""``envguard check``: will it run here."""

from __future__ import annotations

from typing import Annotated

import typer

from envguard.cli.live import begin_probe
from envguard.cli.options import (
    DEFAULT_TORCH_INDEX,
    MachineOptions,
    OutputOptions,
    takes,
)
from envguard.cli.out import emit_reports


@takes(machine_options=MachineOptions, output=OutputOptions)
def check(
    subject: Annotated[
        list[str] | None,
        typer.Argument(
            help="Pins such as torch==2.7.1+cu128, or files, judged one after the other: locks, "
            "requirements.txt, pyproject.toml, environment.yml, Dockerfiles, scripts."
        ),
    ] = None,
    python: Annotated[
        str | None, typer.Option("--python", help="Another interpreter on this machine.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="What was written or pasted: a facts document, collect_env, ds_report, "
            "nvidia-smi or pip list; - is stdin.",
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

    Without a subject, the interpreter that envguard runs in is judged on this machine. Of several
    files the worst verdict is the answer.
    """
    with begin_probe(python, source, machine_options) as pending:
        from envguard.cli.checking import check_subjects

        reports = check_subjects(
            subject or (),
            python=python,
            source=source,
            pending=pending,
            is_deep=deep,
            require_gpu=require_gpu,
            driver_fit=driver_fit,
            torch_index=torch_index,
            machine_options=machine_options,
            output=output,
        )
    return emit_reports(reports, output)
