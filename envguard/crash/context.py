"""What is written down before a run starts: command, configuration files, variables, facts."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.facts.facts import Facts
from envguard.files import is_file, read_bounded
from envguard.redaction import (
    clean_command,
    clean_config,
    clean_text,
    clean_variable,
    is_secret_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SUFFIXES = {".json", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".py", ".sh"}
_KEPT = {".json", ".yaml", ".yml", ".toml", ".cfg", ".ini"}
_LARGEST = 2**20
_MOST_FILES = 32
# Variables that change what a run does; those whose name says that they are secret are left out.
_VARIABLES = re.compile(
    r"(?:CUDA|NCCL|TORCH|PYTORCH|OMP|MKL|DS|DEEPSPEED|ACCELERATE|HF|TRANSFORMERS|LD_LIBRARY|"
    r"MASTER|WORLD|SLURM|FSDP|GLOO|UCX|MALLOC|PYTHON)\w*"
)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file that the command names.

    Args:
        path: As the command names it.
        sha256: Of its content.
        size: Bytes.
        text: Its content without secrets, where it is small text that configures; None for scripts.
    """

    path: str
    sha256: str
    size: int
    text: str | None = None


@dataclass(frozen=True, slots=True)
class RunContext:
    """Everything about a run that is known before it starts."""

    command: tuple[str, ...]
    cwd: str = ""
    started_at: str = ""
    files: tuple[ConfigFile, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)


def gather_context(
    command: Sequence[str], environ: Mapping[str, str], facts: Facts, cwd: Path
) -> RunContext:
    """Write down the context of a run, without the secrets that stand in it.

    Args:
        command: Program and arguments.
        environ: Its environment.
        facts: Machine and environment, as probed.
        cwd: Where it is started.
    """
    return RunContext(
        clean_command(command),
        str(cwd),
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        tuple(find_config_files(command, cwd)),
        {k: clean_variable(k, environ[k]) for k in sorted(environ) if is_recorded(k)},
        facts,
    )


def is_recorded(name: str) -> bool:
    """Whether a variable goes into the record."""
    return bool(_VARIABLES.fullmatch(name)) and not is_secret_name(name)


def find_config_files(command: Sequence[str], cwd: Path) -> Iterator[ConfigFile]:
    """The files that a command line names: as words, or behind ``--option=``."""
    found: set[str] = set()
    for word in command[1:]:
        name = word.partition("=")[2] if word.startswith("-") and "=" in word else word
        suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122 - a word is not yet a path
        if suffix not in _SUFFIXES or name in found or len(found) >= _MOST_FILES:
            continue
        item = _read(name, cwd / name, is_kept=suffix in _KEPT)
        if item is not None:
            found.add(name)
            yield item


def _read(name: str, path: Path, *, is_kept: bool) -> ConfigFile | None:
    try:
        if not is_file(path):
            return None
        raw = read_bounded(path, 64 * _LARGEST)
    except InputError:
        return None
    text = None
    if is_kept and len(raw) <= _LARGEST:
        text = clean_config(raw.decode("utf-8", "replace"))
    return ConfigFile(clean_text(name), hashlib.sha256(raw).hexdigest(), len(raw), text)


def interpreter_of(command: Sequence[str], path: str | None) -> str | None:
    """The Python interpreter that a command runs, as far as its first words tell.

    ``python train.py`` names it; ``torchrun``, ``accelerate`` and ``deepspeed`` are scripts whose
    first line does.

    Returns:
        A path; None when the command is something else.
    """
    import shutil

    program = shutil.which(command[0], path=path)
    if program is None:
        return None
    if re.fullmatch(r"python[\d.]*(?:\.exe)?", Path(program).name):
        return program
    try:
        with Path(program).open("rb") as file:
            first = file.readline(512).decode("utf-8", "replace")
    except OSError:
        return None
    match = re.match(r"#!\s*(\S*python[\d.]*)\s*$", first)
    return match[1] if match and is_file(match[1]) else None
