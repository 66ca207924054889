"""``envguard lock``: a pinned, hashed lockfile with the torch build for the machines named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from envguard.cli.lock_request import ChoiceOptions, gather_request
from envguard.cli.options import MachineOptions, takes
from envguard.cli.output import write_text
from envguard.errors import ExitCode, InputError
from envguard.matrix.loader import Matrix

if TYPE_CHECKING:
    from envguard.lock.plan import LockPlan


@takes(machine_options=MachineOptions, choice=ChoiceOptions)
def lock(
    requirements: Annotated[
        list[str] | None, typer.Argument(help="What to lock: torch, 'transformers>=5', ...")
    ] = None,
    requirement: Annotated[
        list[str] | None, typer.Option("-r", "--requirement", help="A requirements file.")
    ] = None,
    output: Annotated[
        list[str] | None,  # text, because converting to paths costs typer 50 ms
        typer.Option(
            "-o",
            "--output",
            help="pylock.toml or requirements.txt, the name says which (repeatable).",
        ),
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="pylock or requirements; default: by name.")
    ] = None,
    style: Annotated[
        str,
        typer.Option("--style", help="Torch in requirements: by address (urls) or by index."),
    ] = "urls",
    uv: Annotated[
        Path | None, typer.Option("--uv", envvar="ENVGUARD_UV", help="Another uv program.")
    ] = None,
    matrix: Annotated[
        Path | None, typer.Option("--matrix", help="Folder of tables to use instead.")
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing on stderr.")] = False,
    *,
    machine_options: MachineOptions,
    choice: ChoiceOptions,
) -> int:
    """Choose the torch build that serves the machines, resolve everything around it, lock it.

    torch is always part of the lock. Without machine options it is made for this machine.
    """
    from envguard.lock.plan import plan_lock
    from envguard.lock.runner import find_uv

    tables = Matrix.load(matrix)
    outputs = _outputs([Path(name) for name in output or ()], form, style)
    files = [Path(name) for name in requirement or ()]
    request, notes = gather_request(requirements or (), files, machine_options, choice, tables)
    plan = plan_lock(request, tables, find_uv(os.environ, stated=uv), notes=notes)
    return _emit(plan, outputs, style, quiet=quiet)


def _outputs(
    paths: list[Path], form: str | None, style: str
) -> tuple[tuple[Path | None, str], ...]:
    """Where to write what; settled before anything takes time."""
    from envguard.lock import FORMATS, format_of
    from envguard.lock.requirements import Style

    if form is not None and form not in FORMATS:
        raise InputError(f"--format: {form!r} is none of {', '.join(FORMATS)}")
    if style not in {one.value for one in Style}:
        raise InputError(f"--style: {style!r} is none of {', '.join(s.value for s in Style)}")
    for path in paths:
        if not path.parent.is_dir():
            raise InputError(f"{path}: cannot be written: there is no folder {path.parent}")
    return tuple((path, format_of(path, form)) for path in paths or (None,))


def _emit(
    plan: LockPlan, outputs: tuple[tuple[Path | None, str], ...], style: str, *, quiet: bool
) -> int:
    from envguard.lock import render_lock
    from envguard.lock.requirements import Style

    rendered = [(path, render_lock(plan, form, Style(style))) for path, form in outputs]
    for path, text in rendered:
        write_text(text, path)
    if not quiet:
        for line in _summary(plan, [path for path, _ in outputs if path is not None]):
            typer.echo(f"envguard: {line}", err=True)
    return ExitCode.FITS


def _summary(plan: LockPlan, paths: list[Path]) -> list[str]:
    places = f" in {', '.join(map(str, paths))}" if paths else ""
    newer = [item for item in plan.rejected if item.build.version > plan.build.version]
    passed = f"; {len(newer)} newer builds do not fit" if newer else ""
    return [
        *(f"note: {note}" for note in plan.notes),
        f"{plan.why}{passed}",
        f"{len(plan.pins)} packages locked{places}",
    ]
