"""What the matrix knows about prebuilt wheels of extensions: names, combinations, what was seen."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.errors import MatrixError
from envguard.facts.codec import parse_specifier
from envguard.matrix.packages import rows_of
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.versions import CudaVersion
    from envguard.matrix.packages import PackageTable
    from envguard.matrix.reading import Row


_FILE = re.compile(
    r"[A-Za-z0-9_]+-(?P<version>[^-+]+)\+cu(?P<cuda>\d+)torch(?P<torch>\d+\.\d+)"
    r"cxx11abi(?P<abi>TRUE|FALSE)-(?P<python>cp\d+)-cp\d+-(?P<platform>[a-z0-9_]+)\.whl",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Combination:
    """What a prebuilt wheel was made for, in the words of its name.

    Args:
        release: Release of the package, which names the tag.
        torch: Major and minor of torch: ``2.8``.
        cuda: Label without ``cu``: ``12`` or ``122``.
        cxx11_abi: Whether it uses the new C++ ABI.
        python: ``cp312``.
        platform: ``linux_x86_64``.
    """

    release: Version
    torch: str
    cuda: str
    cxx11_abi: bool
    python: str
    platform: str

    @property
    def words(self) -> str:
        """For a sentence: ``torch 2.8, CUDA 12, cp312``."""
        abi = "" if self.cxx11_abi else ", old C++ ABI"
        return f"torch {self.torch}, CUDA {self.cuda[:2]}{abi}, {self.python}"


def parse_file_name(name: str) -> Combination | None:
    """Read what a prebuilt wheel was made for out of its name; None where it does not say."""
    match = _FILE.fullmatch(name)
    if match is None:
        return None
    return Combination(
        Version(match["version"]),
        match["torch"],
        match["cuda"],
        match["abi"].upper() == "TRUE",
        match["python"],
        match["platform"],
    )


_CHOICE = re.compile(r"\{([^{}]*)\}")
_REPEATED = re.compile(r"-cp(\d+)-cp\.\.-")
_EXCLUDED = re.compile(r"torch ([0-9][\w.]*)\+(py|cuda) ([0-9.]+)")


@dataclass(frozen=True, slots=True)
class BuiltRow:
    """The build matrix of one release, an upper bound of what was published."""

    release: Version
    labels: tuple[str, ...]
    torch: tuple[str, ...]
    pythons: tuple[str, ...]
    abis: frozenset[bool]
    platforms: tuple[str, ...]
    excluded: frozenset[tuple[str, str]]

    def holds(self, combination: Combination) -> bool:
        """Whether a combination was built."""
        return (
            combination.torch in self.torch
            and combination.cuda in self.labels
            and combination.cxx11_abi in self.abis
            and combination.python in self.pythons
            and combination.platform in self.platforms
            and (combination.torch, combination.python) not in self.excluded
            and (combination.torch, combination.cuda) not in self.excluded
        )


@dataclass(frozen=True, slots=True)
class SeenRow:
    """Names of wheels that were seen, or found missing.

    Args:
        tag: The release that they belong to.
        names: File names; one that ends in ``*`` stands for all that begin like it.
        is_absent: They were found missing.
        sha256: The digest of the one wheel that it names; empty when not recorded.
    """

    tag: str
    names: tuple[str, ...]
    is_absent: bool
    sha256: str

    def holds(self, file_name: str) -> bool:
        """Whether it is about this file."""
        starts = (name[:-1] for name in self.names if name.endswith("*"))
        return file_name in self.names or any(file_name.startswith(start) for start in starts)


@dataclass(frozen=True, slots=True)
class SourceBuild:
    """What building a release from source takes.

    Args:
        versions: The releases that this is about.
        requires: Their requirements, which a source archive does not state without a build.
        tools: What has to be on the machine, for a sentence.
    """

    versions: SpecifierSet
    requires: tuple[str, ...]
    tools: str


def full_labels(table: PackageTable) -> SpecifierSet:
    """The releases whose wheels name major and minor of CUDA, where rows do not list labels."""
    for row in rows_of(table.document, "range"):
        if row.data.get("label_cuda") == "full":
            return row.value("versions", parse_specifier)
    return SpecifierSet("<0")


def read_built(row: Row, full: SpecifierSet) -> BuiltRow:
    """Read the build matrix of one release.

    Args:
        row: Of the array ``prebuilt``.
        full: Releases whose wheels name major and minor of CUDA.

    Raises:
        MatrixError: A field is missing or has the wrong form.
    """
    release = row.value("version", Version)
    toolkits = row.values("toolkits", Version)
    is_full = full.contains(release, prereleases=True)
    labels = row.words("labels") if row.has("labels") else ()
    plain = tuple(label.removeprefix("cu") for label in labels) or tuple(
        dict.fromkeys(f"{t.major}{t.minor}" if is_full else str(t.major) for t in toolkits)
    )
    torch = row.values("torch", Version)
    platforms = (
        "linux_x86_64",
        *(("linux_aarch64",) if row.flag("aarch64", default=False) else ()),
    )
    return BuiltRow(
        release=release,
        labels=plain,
        torch=tuple(_minor(version) for version in torch),
        pythons=row.words("pythons"),
        abis=frozenset(word == "TRUE" for word in re.findall("TRUE|FALSE", row.text("abi"))),
        platforms=platforms,
        excluded=_read_excluded(row.text("exclude") if row.has("exclude") else ""),
    )


def _minor(version: Version) -> str:
    return f"{version.major}.{version.minor}"


def _read_excluded(text: str) -> frozenset[tuple[str, str]]:
    """``torch 2.4.0+py 3.13; torch 2.0.1+cuda 12.2.0`` as pairs of torch and python or label."""
    found = set()
    for torch, kind, value in _EXCLUDED.findall(text):
        parts = value.split(".")
        word = f"cp{parts[0]}{parts[1]}" if kind == "py" else "".join(parts[:2])
        found.add((_minor(Version(torch)), word))
    return frozenset(found)


def read_seen(row: Row) -> SeenRow:
    """Read names of wheels that were seen or found missing.

    Raises:
        MatrixError: A field is missing or has the wrong form.
    """
    status = row.text("status")
    if status not in {"seen", "absent"}:
        raise row.error("status", f"{status!r} is neither seen nor absent")
    digest = row.text("sha256") if row.has("sha256") else ""
    names = tuple(_expand(row.text("file")))
    return SeenRow(row.text("release"), names, status == "absent", digest)


def _expand(text: str) -> Iterator[str]:
    """The names that ``a{b,c}`` stands for; ``cp..`` repeats the Python before it."""
    parts = _CHOICE.split(text)
    choices = [part.split(",") if position % 2 else [part] for position, part in enumerate(parts)]
    for words in product(*choices):
        name = "".join(words)
        yield _REPEATED.sub(r"-cp\1-cp\1-", name)


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
