"""``[tool.envguard]`` in pyproject.toml: defaults for any long option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envguard.errors import InputError


def read_defaults(command: str, folder: Path | None = None) -> dict[str, Any]:
    """Read the defaults for one command from the nearest pyproject.toml.

    Keys are option names without the dashes (``torch-index = "..."``); a table named after a
    command (``[tool.envguard.check]``) holds defaults for that command only.

    Args:
        command: Name of the command.
        folder: Where to start looking; the working directory when None.

    Raises:
        InputError: The file is not TOML, or the table is none.
    """
    path = _nearest(folder or Path.cwd())
    if path is None:
        return {}
    table = _table(path)
    general = {k: v for k, v in table.items() if not isinstance(v, dict)}
    own = table.get(command, {})
    if not isinstance(own, dict):
        raise InputError(f"{path}: tool.envguard.{command} is not a table")
    return {str(k).replace("-", "_"): v for k, v in {**general, **own}.items()}


def _nearest(folder: Path) -> Path | None:
    for candidate in (folder, *folder.parents):
        path = candidate / "pyproject.toml"
        if path.is_file():
            return path
    return None


def _table(path: Path) -> dict[str, Any]:
    try:
        raw = path.read_bytes()
    except OSError as err:
        raise InputError(f"{path}: cannot be read: {err.strerror}") from err
    if b"envguard" not in raw:  # the common case costs no parse
        return {}
    import tomllib

    try:
        document = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as err:
        raise InputError(f"{path}: not valid TOML: {err}") from err
    table = document.get("tool", {}).get("envguard", {})
    if not isinstance(table, dict):
        raise InputError(f"{path}: tool.envguard is not a table")
    return table
