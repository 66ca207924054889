"""Where the lock goes: files, formats, and which targets each file holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.cli.output import write_text
from envguard.errors import InputError
from envguard.files import is_folder
from envguard.lock import FORMATS, format_of, render_lock
from envguard.lock.requirements import Style

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from envguard.lock.locks import Locks

_PLACEHOLDER = "{target}"
_NAMED_PYLOCK = re.compile(r"pylock\.([^.]+)\.toml")


@dataclass(frozen=True, slots=True)
class Output:
    """One file, or one for each target.

    Args:
        path: As stated, possibly with ``{target}`` in it; None for standard output.
        form: Its format.
    """

    path: str | None
    form: str


def plan_outputs(paths: Iterable[str], form: str | None, style: str) -> tuple[Output, ...]:
    """What to write where; settled before anything takes time.

    Args:
        paths: As stated; none for standard output.
        form: ``--format``.
        style: ``--style``.

    Raises:
        InputError: A format is not known, contradicts the name of the file, or the file cannot
            be written.
    """
    if form is not None and form not in FORMATS:
        raise InputError(f"--format: {form!r} is none of {', '.join(FORMATS)}")
    if style not in {one.value for one in Style}:
        raise InputError(f"--style: {style!r} is none of {', '.join(s.value for s in Style)}")
    outputs = []
    for text in paths:
        path = Path(text.replace(_PLACEHOLDER, "target"))
        if not is_folder(path.parent):
            raise InputError(f"{text}: cannot be written: there is no folder {path.parent}")
        if path.name == "pyproject.toml" and path.exists():
            raise InputError(
                f"{text}: is there already, and would be replaced",
                hint="write to another file and lay it into the project",
            )
        outputs.append(Output(text, format_of(path, form)))
    return tuple(outputs) or (Output(None, format_of(None, form)),)


def write_outputs(locks: Locks, outputs: Sequence[Output], style: str) -> tuple[Path, ...]:
    """Render everything, then write it.

    Returns:
        The files written.

    Raises:
        InputError: A format cannot hold the lock, or a file cannot be written.
    """
    rendered = [
        (path, render_lock(held, output.form, Style(style)))
        for output in outputs
        for path, held in _files(output, locks)
    ]
    for path, text in rendered:
        write_text(text, path, is_free_of_secrets=True)
    return tuple(path for path, _ in rendered if path is not None)


def _files(output: Output, locks: Locks) -> list[tuple[Path | None, Locks]]:
    """The files of an output with what each holds."""
    if output.path is None:
        return [(None, locks)]
    if _PLACEHOLDER in output.path:
        if not locks.names:
            raise InputError(f"{output.path}: there are no targets: state --target")
        return [
            (Path(output.path.replace(_PLACEHOLDER, name)), locks.only(name))
            for name in locks.names
        ]
    path = Path(output.path)
    match = _NAMED_PYLOCK.fullmatch(path.name)
    if match and match[1] in locks.names:
        return [(path, locks.only(match[1]))]
    return [(path, locks)]
