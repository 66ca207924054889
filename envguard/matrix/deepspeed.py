"""Queries about DeepSpeed: requirements of its releases, toolkits that it builds ops with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.facts.codec import WordsOf
from envguard.facts.versions import CudaVersion
from envguard.matrix.packages import PackageTable, file_provenance
from envguard.matrix.rows import Provenance
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.matrix.reading import Document, Row


@dataclass(frozen=True, slots=True)
class DeepspeedRelease:
    """What one release does with the CUDA toolkit.

    Args:
        version: The release.
        mixes: CUDA releases that it lets toolkit and torch differ among, by major.
        has_skip_variable: ``DS_SKIP_CUDA_CHECK`` turns the comparison off.
        has_windows_wheel: PyPI has a wheel for Windows.
        tested: What its makers' tests run on, as ``torch+backend`` words.
    """

    version: Version
    mixes: Mapping[int, frozenset[CudaVersion]]
    provenance: Provenance
    has_skip_variable: bool = field(default=False, metadata={"key": "skip_variable"})
    has_windows_wheel: bool = field(default=False, metadata={"key": "windows_wheel"})
    tested: WordsOf[str] = ()

    def may_mix(self, toolkit: CudaVersion, torch: CudaVersion) -> bool:
        """Whether it builds ops with this toolkit beside a torch for this CUDA.

        Source: ``assert_no_cuda_mismatch`` in its ``op_builder/builder.py``.
        """
        mixed = self.mixes.get(toolkit.major, frozenset())
        return toolkit == torch or (toolkit in mixed and torch in mixed)


class DeepspeedTable:
    """The rows of ``deepspeed.toml``.

    Args:
        document: The decoded file.

    Raises:
        MatrixError: A row misses a field or a field has the wrong form.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.packages = PackageTable(document)
        self._always = {
            row.integer("major"): frozenset(row.values("minors", CudaVersion.parse))
            for row in document.rows("mixing")
        }

    @property
    def releases(self) -> tuple[DeepspeedRelease, ...]:
        """Every release, oldest first."""
        return tuple(self._read(row) for row in self.document.rows("release"))

    def release(self, version: Version) -> DeepspeedRelease | None:
        """The row of a release; None when it has none."""
        row = self.document.find("release", "version", version.public)
        return self._read(row) if row else None

    def newest_before(self, version: Version) -> DeepspeedRelease | None:
        """The newest release that is not above a version; None below the first."""
        wanted = Version(version.public)
        rows = self.document.rows("release")
        older = [row for row in rows if row.value("version", Version) <= wanted]
        return self._read(older[-1]) if older else None

    def _read(self, row: Row) -> DeepspeedRelease:
        minors = row.values("minors", CudaVersion.parse)
        mixes = {**self._always, 12: frozenset(minors)} if minors else dict(self._always)
        return row.build(DeepspeedRelease, mixes=mixes, provenance=file_provenance(row))
