"""Which packages belong together: those that one distribution has installed."""

from __future__ import annotations

import os
import re

from envguard.files import read_beginning

_MOST_RECORD = 32 * 1024 * 1024
_TOP = re.compile(rb'^"?([A-Za-z0-9_]+)/(?:[^,\n]*/)?[^,\n/]*\.py"?,', re.M)


def packages_with(site: str, module: str) -> tuple[str, ...]:
    """The top-level packages of the distribution that has installed a file.

    Args:
        site: Folder that holds the packages.
        module: Path of the file.

    Returns:
        Names with Python files in them; of a file that no RECORD names, the package that it
        lies in.

    Source: the RECORD file of the "Recording installed projects" specification.
    """
    relative = module.removeprefix(f"{site}/")
    own = relative.partition("/")[0] if "/" in relative else ""
    line = re.compile(rb'^"?' + re.escape(os.fsencode(relative)) + rb'"?,', re.M)
    for record in _records(site):
        if line.search(record):
            names = {name.decode() for name in _TOP.findall(record)} | {own}
            return tuple(sorted(filter(None, names)))
    return (own,) if own else ()


def _records(site: str) -> list[bytes]:
    try:
        names = [name for name in os.listdir(site) if name.endswith(".dist-info")]  # noqa: PTH208 - a text path
    except OSError:
        return []
    found = []
    for name in sorted(names):
        try:
            found.append(read_beginning(f"{site}/{name}/RECORD", _MOST_RECORD))
        except OSError:
            continue
    return found
