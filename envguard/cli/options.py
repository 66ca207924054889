"""Options that several commands share, as dataclasses that become part of a signature."""

from __future__ import annotations

import functools
import inspect
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from envguard.errors import InputError
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

_MACHINE = "Machine (nothing: this one)"
_OUTPUT = "Output"

DEFAULT_TORCH_INDEX = "https://download.pytorch.org/whl/{backend}"


class Format(Enum):
    """Report formats."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"


class FailOn(Enum):
    """From which verdict on the exit code is 1."""

    WARN = "warn"
    UNKNOWN = "unknown"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """What the user states about the machine; every field as typed."""

    machine: Annotated[
        list[Path],
        typer.Option(
            "--machine",
            help="A facts document or report of another machine (repeatable).",
            rich_help_panel=_MACHINE,
        ),
    ] = ()  # type: ignore[assignment]  # typer wants a list type, an immutable default serves it
    gpu: Annotated[
        list[str],
        typer.Option(
            "--gpu",
            help="Product name, e.g. 'Tesla V100' (repeatable).",
            rich_help_panel=_MACHINE,
        ),
    ] = ()  # type: ignore[assignment]  # likewise
    compute_capability: Annotated[
        list[str],
        typer.Option(
            "--compute-capability", help="E.g. 9.0 (repeatable).", rich_help_panel=_MACHINE
        ),
    ] = ()  # type: ignore[assignment]  # likewise
    driver: Annotated[
        str | None,
        typer.Option("--driver", help="Driver version, e.g. 535.104.05.", rich_help_panel=_MACHINE),
    ] = None
    cuda_driver: Annotated[
        str | None,
        typer.Option(
            "--cuda-driver",
            help="CUDA version that nvidia-smi prints, e.g. 12.2.",
            rich_help_panel=_MACHINE,
        ),
    ] = None
    nvcc: Annotated[
        str | None,
        typer.Option("--nvcc", help="CUDA toolkit, e.g. 12.4.", rich_help_panel=_MACHINE),
    ] = None
    platform: Annotated[
        str | None,
        typer.Option("--platform", help="E.g. linux-x86_64.", rich_help_panel=_MACHINE),
    ] = None
    glibc: Annotated[
        str | None, typer.Option("--glibc", help="E.g. 2.31.", rich_help_panel=_MACHINE)
    ] = None
    python_version: Annotated[
        str | None,
        typer.Option("--python-version", help="E.g. 3.12.", rich_help_panel=_MACHINE),
    ] = None
    ram: Annotated[
        str | None, typer.Option("--ram", help="E.g. 256G.", rich_help_panel=_MACHINE)
    ] = None


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Where and how the answer is written."""

    format: Annotated[
        Format, typer.Option("--format", help="Report format.", rich_help_panel=_OUTPUT)
    ] = Format.TEXT
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write to a file.", rich_help_panel=_OUTPUT),
    ] = None
    fail_on: Annotated[
        FailOn,
        typer.Option(
            "--fail-on", help="From which verdict on the exit code is 1.", rich_help_panel=_OUTPUT
        ),
    ] = FailOn.FAIL
    matrix: Annotated[
        Path | None,
        typer.Option("--matrix", help="Folder of tables to use instead.", rich_help_panel=_OUTPUT),
    ] = None
    nagios: Annotated[
        bool,
        typer.Option(
            "--nagios", help="One status line, plugin exit codes.", rich_help_panel=_OUTPUT
        ),
    ] = False
    redact: Annotated[
        bool,
        typer.Option(
            "--redact",
            help="Without paths, UUIDs, addresses, names of users and hosts.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False
    verbose: Annotated[
        bool,
        typer.Option("-v", "--verbose", help="Evidence and sources too.", rich_help_panel=_OUTPUT),
    ] = False
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Only the verdict.", rich_help_panel=_OUTPUT)
    ] = False
    no_color: Annotated[
        bool, typer.Option("--no-color", help="No colour.", rich_help_panel=_OUTPUT)
    ] = False

    def __post_init__(self) -> None:
        if self.nagios and self.format is not Format.TEXT:
            raise InputError(
                f"--nagios and --format {self.format.value} exclude each other",
                hint="a monitor reads one line; run once more for the report",
            )


def is_exact_fit(text: str) -> bool:
    """Whether ``--driver-fit`` asks for the exact grade.

    Raises:
        InputError: It is no grade.
    """
    if text not in {"exact", "same-major"}:
        raise InputError(f"--driver-fit: {text!r} is none of exact, same-major")
    return text == "exact"


def takes(**groups: type[Any]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command the options of dataclasses, each passed as one value.

    Args:
        groups: Parameter name of the command -> dataclass whose fields are the options.
    """

    def spread(command: Callable[..., int]) -> Callable[..., int]:
        hints = get_type_hints(command, include_extras=True)
        own = [
            p.replace(annotation=hints[p.name])
            for p in inspect.signature(command).parameters.values()
            if p.name not in groups
        ]
        shared = [p for group in groups.values() for p in _parameters(group)]

        @functools.wraps(command)
        def flat(**values: Any) -> int:
            gathered = {
                name: group(**{f.name: values.pop(f.name) for f in fields(group)})
                for name, group in groups.items()
            }
            return command(**values, **gathered)

        flat.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]  # read by inspect
        flat.__annotations__ = {p.name: p.annotation for p in (*own, *shared)}
        return flat

    return spread


def _parameters(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if f.default is MISSING else f.default,
            annotation=hints[f.name],
        )
        for f in fields(group)
    ]
