"""Packages that go with torch: requirements, ABI, CUDA, GPUs, prebuilt wheels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING, Literal

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.errors import MatrixError
from envguard.facts.codec import WordsOf, parse_specifier
from envguard.facts.findings import Source
from envguard.facts.versions import ComputeCapability, CudaVersion
from envguard.matrix.rows import Provenance
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.matrix.reading import Document, Row


class Coverage(Enum):
    """Which releases have rows."""

    ALL = "all"
    MINORS = "minors"
    MONTHS = "months"
    CHANGES = "changes"


class BreakScope(Enum):
    """What a break bites: only the first keeps a program from starting."""

    IMPORT = "import"
    INSTALL = "install"
    OP_BUILD = "op-build"
    EXTENSION_BUILD = "extension-build"
    CHECKPOINT_LOAD = "checkpoint-load"
    LAUNCHER = "launcher"
    RESOLVER = "resolver"
    RUNTIME = "runtime"
    COMPILE = "compile"
    INFERENCE = "inference"
    NUMPY_INTEROP = "numpy-interop"
    USER_CODE = "user-code"
    FEATURE = "feature"
    COVERAGE = "coverage"

    @property
    def is_fatal(self) -> bool:
        """Whether a program that uses the package cannot do without what it bites."""
        return self in {BreakScope.IMPORT, BreakScope.RUNTIME, BreakScope.NUMPY_INTEROP}


class AbiKind(Enum):
    """How compiled code is tied to libtorch."""

    CLASSIC = "classic"
    STABLE = "stable"
    NONE = "none"


class Mismatch(Enum):
    """What happens beside a torch that the compiled code was not built for."""

    IMPORT = "import"
    NO_KERNELS = "no-kernels"
    DEGRADED = "degraded"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class BuiltFor:
    """The CUDA that a wheel was built for.

    Args:
        major: Its major; None for a CPU build.
        cuda: Major and minor; None when only the major is known, or for a CPU build.
    """

    major: int | None
    cuda: CudaVersion | None = None

    @classmethod
    def parse(cls, text: str) -> BuiltFor:
        """Read ``12.8``, ``12`` or ``cpu``.

        Raises:
            ValueError: It is none of these.
        """
        if text == "cpu":
            return cls(None)
        if text.isdigit():
            return cls(int(text))
        cuda = CudaVersion.parse(text)
        return cls(cuda.major, cuda)

    def __str__(self) -> str:
        return "cpu" if self.major is None else str(self.cuda or self.major)


@dataclass(frozen=True, slots=True)
class PackageRelease:
    """One release of a package.

    Args:
        version: Its version.
        released: ISO date, empty when not recorded.
        python: Pythons that its metadata admit; None when they do not say.
        pythons: Python tags of its wheels; empty when not recorded.
        requires: What its metadata require; an empty specifier admits every version.
        extras: Requirements of extras, by the package they are about.
        torch: The torch that its compiled code goes with, where metadata do not say.
        cuda: CUDA of PyPI's Linux x86_64 wheel; None when not recorded.
        libraries: CUDA releases for which it packs a library, where it packs several.
        is_yanked: It was withdrawn.
        is_on_pypi: Not only a tag.
    """

    version: Version
    provenance: Provenance
    released: str = ""
    python: SpecifierSet | None = None
    pythons: WordsOf[str] = ()
    requires: Mapping[str, SpecifierSet] = field(default_factory=dict)
    extras: Mapping[str, SpecifierSet] = field(default_factory=dict)
    torch: SpecifierSet | None = None
    cuda: BuiltFor | None = None
    libraries: WordsOf[CudaVersion] = field(default=(), metadata={"key": "cudas"})
    is_yanked: bool = field(default=False, metadata={"key": "yanked"})
    is_on_pypi: bool = field(default=True, metadata={"key": "on_pypi"})


@dataclass(frozen=True, slots=True)
class PackageRange:
    """What holds for a range of a package's releases; a field that it does not state is None.

    Args:
        versions: The range; empty holds every release.
        declares: Requirements of the metadata, where no release row states them.
        needs: What a feature needs of other distributions; ``torch_cuda`` is torch's CUDA.
        feature: What ``needs`` or ``capability`` is about, for a sentence.
        scope: What goes wrong without it.
        abi: How its compiled code is tied to libtorch.
        torch: The torch that its compiled code goes with.
        loads: The torch beside which it loads its compiled code at all.
        mismatch: What happens beside another torch or CUDA.
        cuda: CUDA of PyPI's Linux x86_64 wheel.
        cuda_choice: Which of several libraries it takes: only that of the exact CUDA, or one of
            the same major.
        capability: Lowest compute capability that it serves.
        capability_end: The first above it that it serves no more; None without an end.
        cxx_min: C++ standard that its headers demand.
        gcc_min: Oldest GCC that offers it.
        python: Pythons that its metadata admit.
        foreign: It is another project than the name suggests.
    """

    versions: SpecifierSet
    provenance: Provenance
    declares: Mapping[str, SpecifierSet] = field(default_factory=dict)
    needs: Mapping[str, SpecifierSet] = field(default_factory=dict)
    feature: str = ""
    scope: BreakScope = BreakScope.RUNTIME
    abi: AbiKind | None = None
    torch: SpecifierSet | None = None
    loads: SpecifierSet | None = None
    mismatch: Mismatch | None = None
    cuda: BuiltFor | None = None
    cuda_choice: Literal["exact", "same-major"] | None = None
    capability: ComputeCapability | None = None
    capability_end: ComputeCapability | None = None
    cxx_min: int | None = None
    gcc_min: int | None = None
    python: SpecifierSet | None = None
    foreign: str = ""

    def serves(self, capability: ComputeCapability) -> bool:
        """Whether its bounds on the GPU, if it states any, hold this compute capability."""
        is_above = self.capability is None or self.capability <= capability
        return is_above and (self.capability_end is None or capability < self.capability_end)


@dataclass(frozen=True, slots=True)
class Prebuilt:
    """The matrix that a release's wheels were built from, an upper bound of what there is.

    Args:
        version: The release.
        toolkits: CUDA releases.
        torch: Torch releases; wheels are named by their minor.
        pythons: Python tags.
        has_aarch64: Also for Linux aarch64.
    """

    version: Version
    toolkits: WordsOf[CudaVersion]
    torch: WordsOf[Version]
    pythons: WordsOf[str]
    provenance: Provenance
    has_aarch64: bool = field(default=False, metadata={"key": "aarch64"})

    @property
    def cuda_majors(self) -> tuple[int, ...]:
        """The CUDA majors, each once."""
        return tuple(sorted({cuda.major for cuda in self.toolkits}))

    def serves(self, torch: Version) -> bool:
        """Whether wheels were built for this torch's minor."""
        return any(built.release[:2] == torch.release[:2] for built in self.torch)


def read_specifiers(row: Row, field: str) -> Mapping[str, SpecifierSet]:
    """A field that is a table of specifiers; empty where the row does not state it.

    Raises:
        MatrixError: A value is no specifier.
    """
    table = row.data.get(field, {})
    if not isinstance(table, dict):
        raise row.error(field, "expected a specifier for each distribution")
    found = {}
    for name, text in table.items():
        try:
            found[name] = row.document.parse(parse_specifier, str(text))
        except ValueError as err:
            raise row.error(f"{field}.{name}", str(err)) from err
    return found


def read_release(row: Row) -> PackageRelease:
    """Read a row of ``release``.

    Raises:
        MatrixError: A field is missing or has the wrong form.
    """
    return row.build(PackageRelease, provenance=file_provenance(row))


def file_provenance(row: Row) -> Provenance:
    """The row's provenance, with the file that was read."""
    provenance = row.provenance()
    if not row.has("file"):
        return provenance
    url, file = provenance.source.url, row.text("file")
    # A source that ends in a slash is a folder of the file; the others say what kind it is.
    address = f"{url}{file}" if url.endswith("/") else f"{file}: {url}"
    return replace(provenance, source=Source(address, provenance.source.checked))


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
            self._ranges = tuple(row.build(PackageRange) for row in rows)
        if version is None:
            return self._ranges
        public = Version(version.public)
        return tuple(r for r in self._ranges if r.versions.contains(public, prereleases=True))

    def prebuilt(self, version: Version) -> Prebuilt | None:
        """The build matrix of a release's wheels; None when not recorded."""
        if "prebuilt" not in self.document.data:
            return None
        row = self.document.find("prebuilt", "version", version.public)
        return row.build(Prebuilt, provenance=file_provenance(row)) if row else None

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
