"""Locks: the torch build for the machines, everything around it resolved, one file per format."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.errors import InputError
from envguard.lock.pylock import render_pylock
from envguard.lock.requirements import Style, render_requirements

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import PurePath

    from envguard.lock.plan import LockPlan

_PYLOCK_NAME = re.compile(r"pylock(?:\.[^.]+)?\.toml")
_REQUIREMENTS_NAME = re.compile(r"requirements[^/\\]*\.txt")

FORMATS: dict[str, Callable[[LockPlan, Style], str]] = {
    "pylock": lambda plan, _style: render_pylock(plan),
    "requirements": render_requirements,
}


def render_lock(plan: LockPlan, form: str, style: Style = Style.URLS) -> str:
    """The lock in one of the :data:`FORMATS`.

    Raises:
        InputError: The format is not known, or cannot hold this lock.
    """
    render = FORMATS.get(form)
    if render is None:
        raise InputError(f"--format: {form!r} is none of {', '.join(FORMATS)}")
    return render(plan, style)


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
            hint="name it pylock.toml or requirements.txt, or state --format",
        )
    is_bad_pylock = stated == "pylock" and by_name != "pylock"
    if is_bad_pylock or (by_name == "pylock" and path and stated not in {None, "pylock"}):
        raise InputError(
            f"{path}: installers read pylock.toml or pylock.NAME.toml as pylock, nothing else"
        )
    return stated or by_name or "pylock"


def _format_by_name(name: str) -> str | None:
    if _PYLOCK_NAME.fullmatch(name):
        return "pylock"
    return "requirements" if _REQUIREMENTS_NAME.fullmatch(name) else None
