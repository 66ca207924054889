"""Locks: the torch build for the machines, everything around it resolved, one file per format."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, cast

from envguard.errors import InputError
from envguard.lock.formats.requirements import RequirementsStyle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import PurePath

    from envguard.lock.lock_plan import LockPlan, Locks

    Render = Callable[[Locks, RequirementsStyle], str]

# Format -> module that holds ``render_<format>``; only the one that is asked for is imported.
FORMATS = {
    "pylock": "envguard.lock.formats.pylock",
    "requirements": "envguard.lock.formats.requirements",
    "uv-project": "envguard.lock.formats.uv_project",
    "environment": "envguard.lock.formats.environment",
    "dockerfile": "envguard.lock.formats.dockerfile",
}

_NAMES = (
    (re.compile(r"pylock(?:\.[^.]+)?\.toml"), "pylock"),
    (re.compile(r"requirements[^/\\]*\.txt"), "requirements"),
    (re.compile(r"environment[^/\\]*\.ya?ml"), "environment"),
    (re.compile(r"Dockerfile[^/\\]*|[^/\\]*\.[Dd]ockerfile"), "dockerfile"),
)


def render_lock(
    locks: Locks | LockPlan, form: str, style: RequirementsStyle = RequirementsStyle.URLS
) -> str:
    """The lock in one of the :data:`FORMATS`.

    Raises:
        InputError: The format is not known, or cannot hold this lock.
    """
    if form not in FORMATS:
        raise InputError(f"--format: {form!r} is none of {', '.join(FORMATS)}")
    from envguard.lock.lock_plan import Locks  # loaded with what it holds: a plan

    module = importlib.import_module(FORMATS[form])
    name = f"render_{form.replace('-', '_')}"
    render = cast("Render", getattr(module, name))
    return render(locks if isinstance(locks, Locks) else Locks.of(locks), style)


def format_of(path: PurePath | None, stated: str | None) -> str:
    """The format that a file name or the option asks for.

    Args:
        path: Where the lock goes; None for standard output.
        stated: The format as stated; None for what the name says.

    Raises:
        InputError: Neither says it, or they contradict each other.
    """
    by_name = _format_by_name(path.name) if path else "pylock"
    if stated is None and by_name is None:
        raise InputError(
            f"{path}: the name says no format",
            hint="name it pylock.toml, requirements.txt, environment.yml or Dockerfile, or state "
            "--format",
        )
    is_bad_pylock = stated == "pylock" and by_name != "pylock"
    if is_bad_pylock or (by_name == "pylock" and path and stated not in {None, "pylock"}):
        raise InputError(
            f"{path}: installers read pylock.toml or pylock.NAME.toml as pylock, nothing else"
        )
    return stated or by_name or "pylock"


def _format_by_name(name: str) -> str | None:
    return next((form for pattern, form in _NAMES if pattern.fullmatch(name)), None)
