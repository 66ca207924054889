"""Queries about packages that go with torch: requirements, ABI, CUDA, GPUs, prebuilt wheels."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.errors import MatrixError
from envguard.matrix.package_rows import (
    Coverage,
    PackageRange,
    PackageRelease,
    Prebuilt,
    read_prebuilt,
    read_range,
    read_release,
)

if TYPE_CHECKING:
    from envguard.matrix.reading import Document, Row

# A release between two rows is taken for the row before it, unless the rows are all there are.
_SAME_PARTS = {Coverage.MINORS: 2, Coverage.MONTHS: 0, Coverage.CHANGES: 0}


class PackageTable:
    """The rows of one of ``packages/*.toml``; each is read when it is asked for.

    Args:
        document: The decoded file.

    Raises:
        MatrixError: The table lacks its name, its coverage or its releases.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.name = _scalar(document, "name")
        self.is_source_only = document.data.get("source_only") is True
        self.is_unlisted = document.data.get("unlisted") is True  # PyPI does not have it
        try:
            self.coverage = Coverage(_scalar(document, "releases"))
        except ValueError as err:
            raise MatrixError(f"{document.name}: releases: {err}") from err
        if "release" not in document.data:
            raise MatrixError(f"{document.name}: release: expected an array of rows")
        self._all: tuple[PackageRelease, ...] | None = None
        self._by_text: dict[str, PackageRelease | None] = {}
        self._ranges: tuple[PackageRange, ...] | None = None

    @property
    def releases(self) -> tuple[PackageRelease, ...]:
        """Every release that has a row, oldest first."""
        if self._all is None:
            self._all = tuple(read_release(row) for row in self.document.rows("release"))
        return self._all

    @property
    def versions(self) -> tuple[Version, ...]:
        """The version of every release that has a row, oldest first."""
        return tuple(row.value("version", Version) for row in self.document.rows("release"))

    def release(self, version: Version) -> PackageRelease | None:
        """The row of exactly this release; a local label does not matter. None without one."""
        text = version.public
        if text not in self._by_text:
            row = self.document.find("release", "version", text)
            # 0.5 and 0.5.0 are one release.
            self._by_text[text] = read_release(row) if row else self._equal_to(Version(text))
        return self._by_text[text]

    def _equal_to(self, version: Version) -> PackageRelease | None:
        return next((release for release in self.releases if release.version == version), None)

    def release_like(self, version: Version) -> PackageRelease | None:
        """The row that also stands for a release without one of its own.

        Returns:
            Of a table that holds the latest patch of each minor, the row of the same minor; of
            one that holds a release a month or those that changed something, the row before.
            What it says about this release is inferred. None where nothing stands for it.
        """
        parts = _SAME_PARTS.get(self.coverage)
        if parts is None:
            return None
        wanted = Version(version.public)
        if parts:
            series = wanted.release[:parts]
            same = (r for r in self.releases if r.version.release[:parts] == series)
            return next(same, None)
        older = [r for r in self.releases if r.version < wanted]
        return older[-1] if older and older[-1] is not self.releases[-1] else None

    def ranges(self, version: Version | None = None) -> tuple[PackageRange, ...]:
        """What is said about ranges of releases, in table order.

        Args:
            version: Only ranges that hold this release; None for all.
        """
        if self._ranges is None:
            rows = self.document.rows("range") if "range" in self.document.data else ()
            self._ranges = tuple(read_range(row) for row in rows)
        if version is None:
            return self._ranges
        public = Version(version.public)
        return tuple(r for r in self._ranges if r.versions.contains(public, prereleases=True))

    def prebuilt(self, version: Version) -> Prebuilt | None:
        """The build matrix of a release's wheels; None when not recorded."""
        if "prebuilt" not in self.document.data:
            return None
        row = self.document.find("prebuilt", "version", version.public)
        return read_prebuilt(row) if row else None

    def has_seen_wheel(self, version: Version, torch: Version, cuda_major: int | None) -> bool:
        """Whether a wheel beyond the build matrix was seen for a torch minor and CUDA major."""
        series = re.escape(".".join(map(str, torch.release[:2])))
        start = re.escape(f"-{version.public}+cu")
        pattern = re.compile(
            rf"{start}([0-9]+)torch(?:{{[^}}]*\b{series}\b[^}}]*}}|{series})cxx11abi"
        )
        for row in rows_of(self.document, "seen"):
            match = pattern.search(row.text("file"))
            if match and row.text("status") == "seen" and cuda_major in {None, int(match[1][:2])}:
                return True
        return False

    def versions_admitting(self, package: str, version: Version) -> tuple[PackageRelease, ...]:
        """The releases, oldest first, whose requirement on a package admits its release.

        A release that requires a package without a bound is left out: it proves nothing.
        """
        public = Version(version.public)
        admitting = []
        for release in self.releases:
            bound = release.requires.get(package)
            if bound and not release.is_yanked and bound.contains(public, prereleases=True):
                admitting.append(release)
        return tuple(admitting)


def rows_of(document: Document, array: str) -> tuple[Row, ...]:
    """The rows of an array that a table may leave out."""
    return tuple(document.rows(array)) if array in document.data else ()


def _scalar(document: Document, key: str) -> str:
    value = document.data.get(key)
    if not isinstance(value, str) or not value:
        raise MatrixError(f"{document.name}: {key}: expected a text")
    return value
