"""``envguard lock``: a pinned, hashed lockfile with the torch build for the machines named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from envguard.cli.lock_request import ChoiceOptions, LockArguments, gather_requests
from envguard.cli.options import MachineOptions, takes
from envguard.errors import InputError
from envguard.matrix.loader import Matrix

if TYPE_CHECKING:
    from envguard.lock.record import PreviousLock


@takes(machine_options=MachineOptions, choice=ChoiceOptions)
def lock(
    requirements: Annotated[
        list[str] | None, typer.Argument(help="What to lock: torch, 'transformers>=5', ...")
    ] = None,
    requirement: Annotated[
        list[str] | None,
        typer.Option(
            "-r",
            "--requirement",
            help="A file that asks for packages: requirements.txt, pyproject.toml, setup.cfg, "
            "environment.yml, pixi.toml, a Dockerfile or a script (repeatable).",
        ),
    ] = None,
    output: Annotated[
        list[str] | None,  # text, because converting to paths costs typer 50 ms
        typer.Option(
            "-o",
            "--output",
            help="pylock.toml, requirements.txt, environment.yml or Dockerfile: the name says "
            "which; {target} is filled in (repeatable).",
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="pylock, requirements, uv-project, environment or dockerfile; default: by name.",
        ),
    ] = None,
    style: Annotated[
        str,
        typer.Option("--style", help="Torch in requirements: by address (urls) or by index."),
    ] = "urls",
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            help="NAME=FILE of a machine, or a backend such as cpu: one group of the lock each, "
            "the first is installed by default (repeatable).",
        ),
    ] = None,
    update: Annotated[
        str | None,
        typer.Option("--update", help="Make this pylock.toml anew, keep pins that still serve."),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option("--check", help="Say whether this pylock.toml is still what would be made."),
    ] = None,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="With --update or --check: keep no pins.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print every build considered, with the reasons.")
    ] = False,
    uv: Annotated[
        Path | None, typer.Option("--uv", envvar="ENVGUARD_UV", help="Another uv program.")
    ] = None,
    matrix: Annotated[
        Path | None, typer.Option("--matrix", help="Folder of tables to use instead.")
    ] = None,
    time_limit: Annotated[
        float,
        typer.Option("--time-limit", help="Seconds that all of it may take, whatever is slow."),
    ] = 900.0,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing on stderr.")] = False,
    *,
    machine_options: MachineOptions,
    choice: ChoiceOptions,
) -> int:
    """Choose the torch build that serves the machines, resolve everything around it, lock it.

    torch is always part of the lock. Without machine options it is made for this machine.
    """
    from envguard.cli.lock_run import LockRun, check_lock, explain_lock, plan_outputs, write_lock
    from envguard.lock.uv import UvSearch

    search = UvSearch(os.environ, stated=uv)
    tables = Matrix.load(matrix)
    previous = _previous(update, check, upgrade=upgrade)
    paths = output or []
    if update and previous and not output and not explain:
        paths = [str(previous.path)]
    outputs = plan_outputs(paths, form, style)
    files = [Path(name) for name in requirement or ()]
    asked = LockArguments(requirements or (), files, target or (), choice, previous, upgrade)
    requests, notes = gather_requests(asked, machine_options, tables)
    means = LockRun.of(
        tables, requests, os.environ, search, notes, quiet=quiet, time_limit_s=time_limit
    )
    if check and previous:
        return check_lock(requests, means, previous)
    if explain:
        return explain_lock(requests, means, outputs, style, is_written=bool(paths))
    return write_lock(requests, means, outputs, style)


def _previous(update: str | None, check: str | None, *, upgrade: bool) -> PreviousLock | None:
    """The earlier lock that is named, if one is.

    Raises:
        InputError: The options contradict each other, or it cannot be read.
    """
    if update and check:
        raise InputError("--update and --check exclude each other")
    if upgrade and not (update or check):
        raise InputError("--upgrade goes with --update or --check")
    stated = update or check
    if not stated:
        return None
    from envguard.lock.record import load_previous  # loaded with such a lock

    return load_previous(Path(stated))
