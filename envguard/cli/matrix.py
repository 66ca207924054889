"""``envguard matrix``: show the tables, verify them, fetch newer ones."""

from __future__ import annotations

from typing import Annotated

import typer

from envguard.cli.matrix_options import NetworkOptions, WheelOptions
from envguard.cli.options import MachineOptions, takes
from envguard.cli.out import PageOptions
from envguard.errors import InputError

_ACTIONS = ("show", "verify", "update")


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
