"""The interpreter that uv is shown: this one, or this one in the role of a free-threaded one."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from envguard.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from envguard.lock.request import Target

# uv takes the version and the platform of a target from options, but that it is free-threaded
# only from the interpreter's own answer. The answer is JSON on standard output.
_ROLE = """\
#!/bin/sh
{python} "$@" | sed 's/"gil_disabled": *false/"gil_disabled": true/'
"""


def interpreter_for(target: Target, folder: Path) -> str:
    """The interpreter to hand to uv.

    Args:
        target: What is locked for.
        folder: Where a program may be written.

    Raises:
        InputError: The target is free-threaded and this system cannot stand in for it.
    """
    if not target.is_free_threaded:
        return sys.executable
    if sys.platform == "win32":
        raise InputError(
            "--python-version: free-threaded Python cannot be locked for on Windows",
            hint="lock on Linux or macOS, with --platform",
        )
    program = folder / "python"
    program.write_text(_ROLE.format(python=shlex.quote(sys.executable)), encoding="utf-8")
    program.chmod(0o755)
    return str(program)
