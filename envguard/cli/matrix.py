"""``envguard matrix``: show the tables, verify them, fetch newer ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envguard.cli.options import MachineOptions, takes
from envguard.cli.out import PageOptions
from envguard.errors import InputError
from envguard.values import dataclass

_ACTIONS = ("show", "verify", "update")
_NETWORK = "Network (verify --packages, verify --binary, update)"
_WHEELS = "Wheels (verify --binary)"


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """Where newer data come from, and how much is asked."""

    packages: Annotated[
        bool,
        typer.Option(
            "--packages", help="verify: ask the package registry too.", rich_help_panel=_NETWORK
        ),
    ] = False
    newest: Annotated[
        int,
        typer.Option(
            "--newest", min=1, help="verify: releases of each package.", rich_help_panel=_NETWORK
        ),
    ] = 3
    index_url: Annotated[
        str,
        typer.Option(
            "--index-url",
            help="verify: registry; else what pip and uv are configured for.",
            rich_help_panel=_NETWORK,
        ),
    ] = ""
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            envvar="ENVGUARD_MATRIX_URL",
            help="update: address of a release document.",
            rich_help_panel=_NETWORK,
        ),
    ] = None
    sha256: Annotated[
        str,
        typer.Option(
            "--sha256",
            metavar="HASH",
            help="update: hash the archive must have. Without it the hash is the one that the"
            " same server states, which proves a whole download and not who made it.",
            rich_help_panel=_NETWORK,
        ),
    ] = ""
    offline: Annotated[
        bool, typer.Option("--offline", help="Use no network.", rich_help_panel=_NETWORK)
    ] = False


@dataclass(frozen=True, slots=True)
class WheelOptions:
    """Which wheels of torch the rows are compared with."""

    binary: Annotated[
        bool,
        typer.Option(
            "--binary", help="Read torch wheels, up to 1 GB each.", rich_help_panel=_WHEELS
        ),
    ] = False
    release: Annotated[
        list[str] | None,
        typer.Option(
            "--release", help="A release; every one from 2.6 on if none.", rich_help_panel=_WHEELS
        ),
    ] = None
    python_tag: Annotated[
        str,
        typer.Option("--python-tag", help="As cp312; else cp311.", rich_help_panel=_WHEELS),
    ] = ""
    wheels: Annotated[
        Path | None,
        typer.Option(
            "--wheels", help="Folder of wheels that need no download.", rich_help_panel=_WHEELS
        ),
    ] = None
    largest: Annotated[
        int | None,
        typer.Option(
            "--largest",
            min=0,
            metavar="MIB",
            help="Leave compiled files above this many MiB where they are.",
            rich_help_panel=_WHEELS,
        ),
    ] = None


@takes(
    machine_options=MachineOptions, network=NetworkOptions, wheels=WheelOptions, page=PageOptions
)
def matrix(
    action: Annotated[str, typer.Argument(metavar="ACTION", help="show, verify or update.")],
    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="show: which table; none lists them.")
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]", help="show: a release, GPU or package of it."),
    ] = None,
    here: Annotated[
        bool, typer.Option("--here", help="show: mark what runs on this machine.")
    ] = False,
    *,
    machine_options: MachineOptions,
    network: NetworkOptions,
    wheels: WheelOptions,
    page: PageOptions,
) -> int:
    """Show the compatibility tables, prove what they promise, or fetch newer ones.

    show TABLE marks the rows that run on a machine where one is stated, with the reasons against
    the others. Tables: torch, drivers, gpus, deepspeed, packages, breaks, toolkits.
    """
    match action:
        case "show":
            from envguard.cli.matrix_show import show

            return show(table, " ".join(name or ()), machine_options, page, here=here)
        case "verify":
            from envguard.cli.matrix_verify import verify

            return verify(_only(table, name, "verify"), network, wheels, page)
        case "update":
            from envguard.cli.matrix_update import update

            return update(_only(table, name, "update"), network, page)
        case _:
            raise InputError(f"matrix {action}: the action is none of {', '.join(_ACTIONS)}")


def _only(table: str | None, name: list[str] | None, action: str) -> str:
    """The only word that may follow an action other than show."""
    if name:
        raise InputError(f"matrix {action}: one name at most, not {' '.join((table or '', *name))}")
    return table or ""
