"""Options of ``envguard matrix``: what is asked for from the network, and which wheels are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from envguard.values import dataclass

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
