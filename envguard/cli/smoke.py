"""``envguard smoke``: does it really run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from envguard.cli.options import OutputOptions, takes
from envguard.cli.out import emit_report, write_text
from envguard.cli.tables import load_matrix
from envguard.errors import ExitCode
from envguard.smoke.result import Device, SmokeRequest, describe_stages, parse_stage_names
from envguard.smoke.smoke_report import smoke_report
from envguard.smoke.smoke_run import run_smoke

if TYPE_CHECKING:
    from envguard.facts.machine import Gpu
    from envguard.smoke.result import SmokeResult


@takes(output=OutputOptions)
def smoke(
    python: Annotated[
        str | None, typer.Option("--python", help="Another interpreter on this machine.")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda:N.")] = "auto",
    stages: Annotated[
        str, typer.Option("--stages", help="Comma-separated stages, with what they need.")
    ] = "",
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds for the whole test.")
    ] = 900,
    stage_timeout: Annotated[
        float | None,
        typer.Option("--stage-timeout", min=1, help="Seconds for each stage; else its own limit."),
    ] = None,
    list_stages: Annotated[bool, typer.Option("--list", help="Show the stages and end.")] = False,
    *,
    output: OutputOptions,
) -> int:
    """Run forward, backward and an optimizer step on one device, stage by stage, in a child.

    It imports torch, and so runs the environment with its start-up files; the other commands only
    read it.
    """
    if list_stages:
        write_text(describe_stages(), output.output)
        return ExitCode.FITS
    request = SmokeRequest(
        python=_located(python) if python is not None else sys.executable,
        device=Device.parse(device),
        stages=parse_stage_names(stages),
        stage_timeout_s=stage_timeout,
        total_timeout_s=timeout,
    )
    matrix = load_matrix(output.matrix)
    result = run_smoke(request)
    report = smoke_report(result, matrix, _gpus_beside(result))
    return emit_report(report, output)


def _gpus_beside(result: SmokeResult) -> tuple[Gpu, ...]:
    """This machine's GPUs, asked for only when there is a UUID to look for among them."""
    if result.detail("cuda-init", "uuid") is None:
        return ()
    from envguard.probe import ProbeOptions, probe_machine

    machine, _ = probe_machine(ProbeOptions())
    return machine.gpus or ()


def _located(python: str) -> str:
    """A program, a path or the folder of a virtual environment, as for every command."""
    from envguard.probe import ProbeOptions
    from envguard.probe.interpreter import locate_python

    return locate_python(python, ProbeOptions())
