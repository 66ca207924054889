"""From what the user states to a job: files, options, versions, and assumptions for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.errors import InputError
from envguard.memory.build import build_job
from envguard.memory.config_files import read_configs
from envguard.memory.guess import guess_shape
from envguard.memory.job import Job, Versions
from envguard.memory.model_file import load_model
from envguard.memory.parsing import parse_params, parse_version
from envguard.memory.stated_options import add_options
from envguard.memory.validate import check_job

if TYPE_CHECKING:
    from envguard.matrix.memory_table import MemoryTable
    from envguard.memory.shape import ModelShape

# The releases whose sources and measurements the formulas come from.
NEWEST: Mapping[str, str] = {
    "deepspeed": "0.19.8",
    "transformers": "5.24.0",
    "torch": "2.13.0",
    "safetensors": "0.8.0",
    "accelerate": "1.15.0",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What the user states, as typed; None is not stated.

    Args:
        params: ``7.6B``.
        model: A config.json, a checkpoint index or a folder.
        configs: DeepSpeed, accelerate or TrainingArguments files.
        versions: Releases by distribution name, as typed.
        installed: Releases of the interpreter on this machine.
        options: Every other option by its name without dashes, as typed.
    """

    params: str | None = None
    model: Path | None = None
    configs: tuple[Path, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    installed: Mapping[str, Version] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A job and how it came about.

    Args:
        job: The job.
        assumptions: What was not stated and is therefore assumed.
        notes: Remarks on what was read.
    """

    job: Job
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]


def resolve(request: Request, table: MemoryTable) -> Resolved:
    """Turn a request into a job.

    Raises:
        InputError: Something stated is unusable, missing, or contradicts something else.
    """
    shape = _shape(request, table)
    settings = read_configs(request.configs)
    add_options(settings, request.options)
    versions, version_notes = _versions(request)
    assumed: list[str] = []
    job = build_job(shape, settings, versions, table, assumed)
    check_job(job, settings)
    if version_notes:
        assumed.append(version_notes)
    return Resolved(job, tuple(assumed), (*shape.notes, *settings.notes))


def _shape(request: Request, table: MemoryTable) -> ModelShape:
    if request.params is not None and request.model is not None:
        raise InputError("--params and --model exclude each other: state one model")
    if request.model is not None:
        return load_model(request.model, table)
    if request.params is None:
        raise InputError("state the model: --params 7.6B or --model config.json")
    return guess_shape(parse_params(request.params), table)


def _versions(request: Request) -> tuple[Versions, str]:
    """Stated releases, then installed ones, then the newest that the formulas know."""
    found: dict[str, Version] = {}
    assumed: list[str] = []
    for name, newest in NEWEST.items():
        text = request.versions.get(name)
        if text is not None:
            found[name] = parse_version(f"--{name}", text)
        elif name in request.installed:
            found[name] = request.installed[name]
        else:
            found[name] = Version(newest)
            assumed.append(f"{name} {newest}")
    words = f"behaviour of {', '.join(assumed)} (state --deepspeed ... for others)"
    return Versions(**found), words if assumed else ""
