"""Results kept in the user's cache folder, so that unchanged files are not read again.

A result that cannot be read, is of another release or is not JSON counts as absent. Files are
replaced in one step, so concurrent runs see an old result or a new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envguard._version import __version__
from envguard.errors import InputError
from envguard.files import read_bounded

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMAT = f"1/{__version__}"
_PREFIX = "deep-"
_MOST_FILES = 64
_MOST_BYTES = 16 * 1024 * 1024


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The folder for results: ``ENVGUARD_CACHE_DIR``, else envguard's below the user's cache.

    Source: XDG Base Directory Specification; Apple's and Microsoft's places on their systems.
    """
    if environ.get("ENVGUARD_CACHE_DIR"):
        return Path(environ["ENVGUARD_CACHE_DIR"])
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or "~").expanduser()
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or home / "AppData/Local") / "envguard" / "Cache"
    if sys.platform == "darwin":
        return home / "Library/Caches/envguard"
    stated = environ.get("XDG_CACHE_HOME", "")
    return (Path(stated) if os.path.isabs(stated) else home / ".cache") / "envguard"  # noqa: PTH117 - a text


class ResultCache:
    """Results by name, each one JSON object.

    Args:
        folder: Where they lie; it is made when something is stored. None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def load(self, subject: str) -> dict[str, Any]:
        """The result kept for a subject; empty when there is none that can be used.

        Args:
            subject: Names the result, e.g. the folders that were read.
        """
        if self._folder is None:
            return {}
        try:
            path = self._place(self._folder, subject)
            document = json.loads(read_bounded(path, _MOST_BYTES))
        except (InputError, ValueError, RecursionError):
            return {}
        fits = isinstance(document, dict) and document.get("format") == _FORMAT
        return document if fits and document.get("subject") == subject else {}

    def store(self, subject: str, result: Mapping[str, Any]) -> None:
        """Keep a result; a folder that cannot be written keeps none, which is no error."""
        if self._folder is None:
            return
        document = {"format": _FORMAT, "subject": subject, **result}
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=True)
        if len(text) > _MOST_BYTES:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _replace(self._place(self._folder, subject), text)
            _drop_oldest(self._folder)

    def _place(self, folder: Path, subject: str) -> Path:
        name = hashlib.sha256(subject.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        return folder / f"{_PREFIX}{name}.json"


def _replace(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{_PREFIX}")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
        os.replace(temporary, path)  # noqa: PTH105 - a name, not a Path, comes from mkstemp
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108 - likewise
        raise


def _drop_oldest(folder: Path) -> None:
    """Keep the newest results only, and no temporary file that a killed run left behind."""
    dated = []
    for pattern in (f"{_PREFIX}*.json", f".{_PREFIX}*"):
        for path in folder.glob(pattern):
            with contextlib.suppress(OSError):
                dated.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(dated, reverse=True)[_MOST_FILES:]:
        with contextlib.suppress(OSError):
            path.unlink()
