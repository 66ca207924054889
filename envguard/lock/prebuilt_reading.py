"""Reads the rows about prebuilt wheels: what was built, what was seen, what building takes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.matrix.package_rows import parse_specifier
from envguard.matrix.packages import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.lock.prebuilt_names import Combination
    from envguard.matrix.packages import PackageTable
    from envguard.matrix.reading import Row

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
