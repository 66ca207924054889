"""Locks: the torch build for the machines, everything around it resolved, one file per format."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.lock.dockerfile import render_dockerfile
from envguard.lock.environment import render_environment
from envguard.lock.locks import Locks
from envguard.lock.plan import LockPlan
from envguard.lock.pylock import render_pylock
from envguard.lock.requirements import Style, render_requirements
from envguard.lock.uv_project import render_uv_project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import PurePath

FORMATS: dict[str, Callable[[Locks, Style], str]] = {
    "pylock": lambda locks, _style: render_pylock(locks),
    "requirements": render_requirements,
    "uv-project": lambda locks, _style: render_uv_project(locks),
    "environment": render_environment,
    "dockerfile": render_dockerfile,
}

_NAMES = (
    (re.compile(r"pylock(?:\.[^.]+)?\.toml"), "pylock"),
    (re.compile(r"requirements[^/\\]*\.txt"), "requirements"),
    (re.compile(r"environment[^/\\]*\.ya?ml"), "environment"),
    (re.compile(r"Dockerfile[^/\\]*|[^/\\]*\.[Dd]ockerfile"), "dockerfile"),
)


def render_lock(locks: Locks | LockPlan, form: str, style: Style = Style.URLS) -> str:
    """The lock in one of the :data:`FORMATS`.

    Raises:
        InputError: The format is not known, or cannot hold this lock.
    """
    render = FORMATS.get(form)
    if render is None:
        raise InputError(f"--format: {form!r} is none of {', '.join(FORMATS)}")
    return render(Locks.of(locks) if isinstance(locks, LockPlan) else locks, style)


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
