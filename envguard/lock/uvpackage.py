"""The program of an installed uv package, and its version without asking it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAMS = frozenset({"uv", "uv.exe"})
_SCRIPTS = frozenset({"bin", "Scripts"})


def packaged_uv(site: Path) -> tuple[Path, Version] | None:
    """Find the program in what the installer recorded of the package.

    Args:
        site: The folder that packages are installed in.

    Returns:
        The program and its version; None where the record does not say, or where another program
        lies in its place.

    Source: https://packaging.python.org/en/latest/specifications/recording-installed-packages/
    """
    try:
        names = [name for name in os.listdir(site) if name.startswith("uv-")]  # noqa: PTH208 - quick
        infos = [name for name in names if name.endswith(".dist-info")]
        if len(infos) != 1:
            return None
        version = Version(infos[0].removesuffix(".dist-info").removeprefix("uv-"))
        record = (site / infos[0] / "RECORD").read_text(encoding="utf-8")
        for path, size in _programs(record, site):
            if path.stat().st_size == size:
                return path, version
    except (OSError, ValueError):
        return None
    return None


def _programs(record: str, site: Path) -> Iterator[tuple[Path, int]]:
    """Programs named uv in a record, each with its recorded size."""
    for line in record.splitlines():
        name, *rest = line.rsplit(",", 2)
        path = Path(os.path.normpath(site / name.strip('"')))
        if len(rest) == 2 and path.name in _PROGRAMS and path.parent.name in _SCRIPTS:
            yield path, int(rest[1] or -1)
