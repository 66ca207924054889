"""Queries about the layout of the PyTorch index: channels, hosts, labels and file names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.facts.machine import Platform
from envguard.matrix.rows import Provenance

if TYPE_CHECKING:
    from envguard.facts.versions import Backend
    from envguard.matrix.reading import Document, Row


@dataclass(frozen=True, slots=True)
class UnlabelledWheels:
    """Wheels of a package on the index that carry no local version label.

    Args:
        package: Normalised name.
        platform: Where they run.
        is_cuda_only: CPU wheels of the same versions are labelled.
        until: Last version without a label; None when all versions have none.
    """

    package: str
    platform: Platform
    is_cuda_only: bool
    until: Version | None
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class PlatformTag:
    """The platform tag of torch wheels on the index, where it is not that of PyPI."""

    torch: SpecifierSet
    platform: Platform
    tag: str
    provenance: Provenance


class IndexTable:
    """The rows of ``index.toml``.

    Args:
        document: The decoded file.

    Raises:
        MatrixError: A row misses a field or a field has the wrong form.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.channels = {row.text("name"): row.text("url") for row in document.rows("channel")}
        self.hosts = tuple(row.text("name") for row in document.rows("host"))
        self.unlabelled = tuple(_read_unlabelled(row) for row in document.rows("unlabelled"))
        self.platform_tags = tuple(_read_tag(row) for row in document.rows("platform_tag"))

    def is_labelled(
        self, package: str, version: Version, backend: Backend, platform: Platform
    ) -> bool:
        """Whether a wheel on the index carries its local version label (``+cu128``).

        Args:
            package: Normalised name.
            version: Its version; a local label does not matter.
            backend: The backend of the wheel.
            platform: Where it runs.
        """
        public = Version(version.public)
        for row in self.unlabelled:
            is_about = row.package == package and row.platform == platform
            is_kind = backend.cuda is not None or not row.is_cuda_only
            if is_about and is_kind and (row.until is None or public <= row.until):
                return False
        return True

    def holds_same_file(self, host: str) -> bool:
        """Whether a host serves the index's files: same paths and hashes on each of them."""
        return host in self.hosts


def _read_unlabelled(row: Row) -> UnlabelledWheels:
    builds = row.text("builds")
    if builds not in {"cuda", "all"}:
        raise row.error("builds", f"{builds!r} is none of cuda, all")
    return UnlabelledWheels(
        row.text("package"),
        row.value("platform", Platform.parse),
        builds == "cuda",
        row.optional("until", Version),
        row.provenance(),
    )


def _read_tag(row: Row) -> PlatformTag:
    return PlatformTag(
        row.value("torch", SpecifierSet),
        row.value("platform", Platform.parse),
        row.text("tag"),
        row.provenance(),
    )
