"""What the matrix knows about prebuilt wheels of extensions: their names and combinations."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.errors import MatrixError
from envguard.lock.prebuilt_names import Combination, parse_file_name
from envguard.lock.prebuilt_reading import (
    BuiltRow,
    SourceBuild,
    full_labels,
    read_built,
    read_seen,
)
from envguard.matrix.package_rows import parse_specifier
from envguard.matrix.packages import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.versions import CudaVersion
    from envguard.matrix.packages import PackageTable

_GITHUB = "https://github.com"


class WheelMatrix:
    """The prebuilt wheels of one package.

    Args:
        table: Its table.

    Raises:
        MatrixError: The table names no wheels, or a row is malformed.
    """

    def __init__(self, table: PackageTable) -> None:
        self.table = table
        self.name = table.name
        data = table.document.data
        self._name, self._url = str(data.get("wheel_name", "")), str(data.get("wheel_url", ""))
        if not self._name or not self._url.startswith(_GITHUB):
            raise MatrixError(f"{table.document.name}: wheel_name and wheel_url: expected texts")
        full = full_labels(table)
        rows = rows_of(table.document, "prebuilt")
        releases = (row for row in rows if row.text("version")[0].isdigit())
        self.rows = tuple(read_built(row, full) for row in releases)
        self.seen = tuple(read_seen(row) for row in rows_of(table.document, "seen"))

    @classmethod
    def of(cls, table: PackageTable | None) -> WheelMatrix | None:
        """The prebuilt wheels of a package; None where there are none."""
        return cls(table) if table and "wheel_url" in table.document.data else None

    def row(self, release: Version) -> BuiltRow | None:
        """The build matrix of a release; None when not recorded."""
        return next((row for row in self.rows if row.release == release), None)

    def label(self, release: Version, cuda: CudaVersion) -> str:
        """How a release's wheels name a CUDA."""
        row = self.row(release)
        labels = row.labels if row else ()
        full = f"{cuda.major}{cuda.minor}"
        if full in labels:
            return full
        same = [label for label in labels if label.startswith(str(cuda.major))]
        return same[-1] if same else str(cuda.major)

    def file_names(self, combination: Combination) -> tuple[str, ...]:
        """How the wheel may be called: tags with ``.postN`` also hold wheels without it."""
        base = Version(combination.release.public).base_version
        versions = dict.fromkeys((str(combination.release), base))
        return tuple(
            self._name.format(
                version=version,
                cuda=combination.cuda,
                torch=combination.torch,
                abi=str(combination.cxx11_abi).upper(),
                python=combination.python,
                platform=combination.platform,
            )
            for version in versions
        )

    def url(self, release: Version, file_name: str, base: str) -> str:
        """The address of a file of a release.

        Args:
            release: Its tag.
            file_name: As it is called.
            base: Where GitHub is: a mirror keeps its paths.
        """
        path = self._url.format(version=release, name=file_name.replace("+", "%2B"))
        return base.rstrip("/") + path.removeprefix(_GITHUB)

    def listing_url(self, release: Version, base: str) -> str:
        """The page that lists the files of a release."""
        repository = self._url.removeprefix(_GITHUB).partition("/releases/")[0]
        return f"{base.rstrip('/')}{repository}/releases/expanded_assets/v{release}"

    def is_built(self, combination: Combination) -> bool:
        """Whether the build matrix holds it, or it was seen."""
        names = self.file_names(combination)
        for row in self.seen:
            is_tag = row.tag == f"v{combination.release}"
            if is_tag and any(row.holds(name) for name in names):
                return not row.is_absent
        built = self.row(combination.release)
        return built is not None and built.holds(combination)

    def recorded_digest(self, file_name: str) -> str:
        """The sha256 of a wheel that was seen; empty when not recorded."""
        return next((row.sha256 for row in self.seen if row.holds(file_name) and row.sha256), "")

    def source_builds(self) -> Iterator[SourceBuild]:
        """What building from source takes, as far as recorded."""
        for row in rows_of(self.table.document, "build"):
            requires = row.data.get("requires")
            if not isinstance(requires, list):
                raise row.error("requires", "expected a list of requirements")
            versions = row.value("versions", parse_specifier)
            yield SourceBuild(versions, tuple(map(str, requires)), row.text("tools"))

    def combinations(self) -> Iterator[Combination]:
        """Everything that was built or seen."""
        for row in self.seen:
            named = () if row.is_absent else row.names
            yield from (found for name in named if (found := parse_file_name(name)))
        for built in self.rows:
            for words in product(
                built.torch, built.labels, sorted(built.abis), built.pythons, built.platforms
            ):
                found = Combination(built.release, *words)
                if self.is_built(found):
                    yield found
