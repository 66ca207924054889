"""What web servers answered before, in the user's cache folder: pages and digests by ETag."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORMAT = "v1"


@dataclass(frozen=True, slots=True)
class CachedPage:
    """A page that was read before.

    Args:
        url: Where it lies after redirects, without credentials.
        etag: The server's mark of this content.
        text: Its content.
    """

    url: str
    etag: str
    text: str


@dataclass(frozen=True, slots=True)
class WebCache:
    """A folder of answers. A cache that cannot be read or written is no reason to fail.

    Args:
        folder: Where it lies; made when the first answer is kept.
    """

    folder: Path

    def page(self, key: str) -> CachedPage | None:
        """The page of an address; None when there is none that can be read."""
        found = self._read("page", key)
        try:
            return CachedPage(**found) if found else None
        except TypeError:
            return None

    def keep_page(self, key: str, page: CachedPage) -> None:
        """Keep the page of an address."""
        self._write("page", key, asdict(page))

    def digest(self, key: str, etag: str) -> str | None:
        """The sha256 of a file whose content has this mark; None when not known."""
        found = self._read("digest", key)
        return found.get("sha256") if found and found.get("etag") == etag else None

    def last_digest(self, key: str) -> str | None:
        """The sha256 that a file had when it was last asked about; None when it never was."""
        found = self._read("digest", key)
        return found.get("sha256") if found else None

    def keep_digest(self, key: str, etag: str, sha256: str) -> None:
        """Keep the sha256 of a file."""
        self._write("digest", key, {"etag": etag, "sha256": sha256})

    def _path(self, kind: str, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()
        return self.folder / _FORMAT / f"{kind}-{name}.json"

    def _read(self, kind: str, key: str) -> dict[str, str] | None:
        try:
            document = json.loads(self._path(kind, key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        is_ours = isinstance(document, dict) and document.get("key") == key
        value = document.get("value") if is_ours else None
        is_plain = isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
        return value if is_plain else None

    def _write(self, kind: str, key: str, value: Mapping[str, str]) -> None:
        path = self._path(kind, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps({"key": key, "value": value}))
        except OSError:
            return


def cache_folder(environ: Mapping[str, str], system: str = sys.platform) -> Path | None:
    """The user's cache folder for envguard.

    Args:
        environ: ``ENVGUARD_CACHE_DIR`` wins, then ``XDG_CACHE_HOME``, then what is usual.
        system: As ``sys.platform`` names it.

    Returns:
        None when the variables name no home.
    """
    if stated := environ.get("ENVGUARD_CACHE_DIR"):
        return Path(stated)
    if shared := environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "envguard"
    if system == "win32":
        local = environ.get("LOCALAPPDATA")
        return Path(local) / "envguard" / "cache" if local else None
    home = environ.get("HOME")
    if not home:
        return None
    return Path(home) / ("Library/Caches" if system == "darwin" else ".cache") / "envguard"
