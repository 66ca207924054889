"""Wheels of the PyTorch index as public lockfiles record them: address and sha256, no contents."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tests.loopback.files import Served, metadata_text

if TYPE_CHECKING:
    from collections.abc import Iterable

_FILE = Path(__file__).with_name("wheel_urls.json")


@dataclass(frozen=True)
class Recorded:
    """One wheel.

    Args:
        path: Below ``/whl/``, quoted as in its address.
        hosts: The hosts that it was recorded at.
        sha256: Its digest.
    """

    path: str
    hosts: tuple[str, ...]
    sha256: str

    @property
    def folder(self) -> str:
        """``cu128``, ``test/cu128``, or nothing for the root."""
        return self.path.rpartition("/")[0]

    @property
    def filename(self) -> str:
        return unquote(self.path.rpartition("/")[2])

    @property
    def package(self) -> str:
        return self.filename.split("-")[0].replace("_", "-")

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(f"https://{host}/whl/{self.path}" for host in self.hosts)


@cache
def recorded_wheels() -> tuple[Recorded, ...]:
    document = json.loads(_FILE.read_text(encoding="utf-8"))
    return tuple(Recorded(r["path"], tuple(r["hosts"]), r["sha256"]) for r in document["wheels"])


@cache
def recorded_pages() -> dict[str, dict[str, list[Served]]]:
    """Folder -> package -> files; what lies in the root is listed in every folder."""
    folders = {wheel.folder for wheel in recorded_wheels()} - {""}
    return {
        folder: _by_package(w for w in recorded_wheels() if w.folder in {folder, ""})
        for folder in folders
    }


def _by_package(wheels: Iterable[Recorded]) -> dict[str, list[Served]]:
    pages: dict[str, list[Served]] = {}
    for wheel in wheels:
        version = wheel.filename.split("-")[1]
        metadata = metadata_text(wheel.package, version, (), ">=3.8")
        served = Served(wheel.filename, wheel.sha256, metadata, None)
        pages.setdefault(wheel.package, []).append(served)
    return pages
