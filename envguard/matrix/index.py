"""Queries about the layout of the PyTorch index: channels, hosts, labels and file names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.facts.machine import Platform
from envguard.matrix.rows import Provenance
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.facts.versions import Backend
    from envguard.matrix.reading import Document


@dataclass(frozen=True, slots=True)
class UnlabelledWheels:
    """Wheels of a package on the index that carry no local version label.

    Args:
        package: Normalised name.
        platform: Where they run.
        builds: Which builds; CPU wheels of the same versions are labelled where it is ``cuda``.
        until: Last version without a label; None when all versions have none.
    """

    package: str
    platform: Platform
    builds: Literal["cuda", "all"]
    provenance: Provenance
    until: Version | None = None


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
        self.unlabelled = tuple(row.build(UnlabelledWheels) for row in document.rows("unlabelled"))
        self.platform_tags = tuple(row.build(PlatformTag) for row in document.rows("platform_tag"))

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
            is_kind = backend.cuda is not None or row.builds == "all"
            if is_about and is_kind and (row.until is None or public <= row.until):
                return False
        return True

    def holds_same_file(self, host: str) -> bool:
        """Whether a host serves the index's files: same paths and hashes on each of them."""
        return host in self.hosts
