"""Queries about who owns a library, a compiled file or a symbol, and who has a runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from envguard.facts.codec import WordsOf
from envguard.matrix.rows import Provenance
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from envguard.facts.versions import CudaVersion
    from envguard.matrix.reading import Document

T = TypeVar("T")

_SHARED_OBJECT = re.compile(r"(?P<stem>[\w.+-]{1,120}?)\.so(?:\.(?P<number>[\d.]{1,20}))?")
_DLL = re.compile(
    r"(?P<stem>[\w.+-]{1,120}?)(?:_(?P<number>\d{1,4})(?:_\d{1,3})?)?\.(?:dll|pyd)", re.I
)
_INSTALLED = re.compile(r"(?:site|dist)-packages[/\\](?P<rest>[^\n]{1,400})")
_NO_PACKAGE = re.compile(r"\.(?:so|pyd|dll|py)\b|\.libs\b")


class LibraryKind(Enum):
    """Where a shared library comes from."""

    CUDA = "cuda"  # the toolkit, or NVIDIA's wheels; numbered after CUDA
    NVIDIA = "nvidia"  # NVIDIA's, numbered by itself
    DRIVER = "driver"
    SYSTEM = "system"
    RUNTIME = "runtime"  # of a compiler, or mathematics: one copy for all
    FFMPEG = "ffmpeg"
    PYTHON = "python"
    TORCH = "torch"
    PACKAGE = "package"
    ROCM = "rocm"
    WINDOWS = "windows"


class OwnerRole(Enum):
    """What a package is in the stack of a crash."""

    FOREIGN = "foreign"  # its compiled code can be what crashed
    TORCH = "torch"
    NVIDIA = "nvidia"
    DRIVER = "driver"
    SYSTEM = "system"
    PYTHON = "python"  # Python itself, or a package that crashes only on what it is given


@dataclass(frozen=True, slots=True)
class SharedLibrary:
    """A library and where it comes from.

    Args:
        names: File names without what follows ``.so``, and of DLLs without their number.
        of: What it is part of, in words.
        kind: Where it comes from.
        cuda: Number in the file name to the CUDA releases that have it, in words.
        releases: Number in the file name to the release of what it is part of.
        wheels: CUDA major to the distribution that brings it.
        folder: Folder of it below ``site-packages/nvidia``.
        apt: Packages of Debian and Ubuntu.
        dnf: Packages of Fedora and RHEL.
        conda: Packages of conda-forge.
        pip: Packages of PyPI.
        fix: What to do, where it is not to install it.
        symbols: How the names of its functions begin.
    """

    names: WordsOf[str]
    of: str
    kind: LibraryKind
    provenance: Provenance
    cuda: Mapping[str, str] = field(default_factory=dict)
    releases: Mapping[str, str] = field(default_factory=dict)
    wheels: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    apt: WordsOf[str] = ()
    dnf: WordsOf[str] = ()
    conda: WordsOf[str] = ()
    pip: WordsOf[str] = ()
    fix: str = ""
    symbols: WordsOf[str] = ()


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """A package and the files that are its own.

    Args:
        package: Normalised name of the distribution, or of what it is part of.
        modules: Names under which it is imported: its folders in ``site-packages``.
        files: How the names of its compiled files begin (``*`` for any further letters).
        role: What it is in a stack.
        built_for_torch: Its compiled files link to libtorch and are made for one release of it.
        entwined: It loads libraries of packages like it: two copies of different releases harm.
        cure: What to try where it crashes.
    """

    package: str
    modules: WordsOf[str]
    provenance: Provenance
    files: WordsOf[str] = ()
    role: OwnerRole = OwnerRole.FOREIGN
    built_for_torch: bool = False
    entwined: bool = False
    cure: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeRow:
    """A version of the C or C++ library, as compiled files ask for it.

    Args:
        version: ``GLIBCXX_3.4.30``.
        gcc: The GCC that brought it; empty for the C library.
        systems: Systems that have it, in words; empty where none is named.
    """

    version: str
    gcc: str
    systems: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class NamedLibrary:
    """A library by the name of its file.

    Args:
        file: The name.
        row: What it is.
        number: The number in the name; empty where it has none.
    """

    file: str
    row: SharedLibrary
    number: str

    @property
    def cudas(self) -> tuple[str, ...]:
        """The CUDA releases (``12``, ``10.2``) that have a library of this name; empty for none."""
        return tuple(_by_number(self.row.cuda, self.number).split())

    @property
    def release(self) -> str:
        """Its own release, where its number tells; empty where it does not."""
        return _by_number(self.row.releases, self.number)

    def has_major(self, cuda: CudaVersion) -> bool:
        """Whether CUDA of this major brings a library of this name."""
        return str(cuda.major) in {release.partition(".")[0] for release in self.cudas}

    def wheel(self, major: int | None) -> str:
        """The distribution that brings it for a CUDA major; empty where none is known."""
        return self.row.wheels.get(str(major), "")


def _by_number(table: Mapping[str, str], number: str) -> str:
    """What a table says of a number, or of its first part: ``11.2`` is an 11."""
    return table.get(number) or table.get(number.partition(".")[0], "")


class OwnerTable:
    """The rows of ``owners.toml``.

    Args:
        document: The decoded file.

    Raises:
        MatrixError: A row misses a field, or a name is stated twice.
    """

    def __init__(self, document: Document) -> None:
        self.libraries = tuple(row.build(SharedLibrary) for row in document.rows("library"))
        self.owners = tuple(row.build(OwnerRow) for row in document.rows("owner"))
        self.runtimes = {
            row.text("version"): row.build(RuntimeRow) for row in document.rows("runtime")
        }
        self._by_name = _index(document, "library", "names", self.libraries)
        self._by_module = _index(document, "owner", "modules", self.owners)
        self._by_file = [(name, row) for row in self.owners for name in row.files]

    def library(self, path: str) -> NamedLibrary | None:
        """The library of a file name or path; None for one that the table does not know.

        Args:
            path: ``/usr/lib/libcufft.so.11`` or ``cublas64_12.dll``.
        """
        file = re.split(r"[/\\]", path)[-1]
        found = _SHARED_OBJECT.fullmatch(file) or _DLL.fullmatch(file)
        if found is None:
            return None
        stem = found["stem"]
        row = self._by_name.get(stem) or self._by_name.get(stem.lower())
        row = row or _longest(stem, self._library_prefixes)
        return NamedLibrary(file, row, found["number"] or "") if row is not None else None

    @cached_property
    def _library_prefixes(self) -> list[tuple[str, SharedLibrary]]:
        return [(name, row) for row in self.libraries for name in row.names]

    def owner(self, package: str) -> OwnerRow | None:
        """The row of a package, by its distribution or one of its modules."""
        name = package.replace("_", "-").lower()
        by_module: OwnerRow | None = self._by_module.get(package)
        return by_module or next((r for r in self.owners if r.package.lower() == name), None)

    def owner_of_file(self, path: str) -> OwnerRow | None:
        """The row of the package that a compiled file or a Python file belongs to.

        Args:
            path: As a stack or the loader names it.
        """
        inside = _INSTALLED.search(path)
        if inside is not None:
            parts = re.split(r"[/\\]", inside["rest"])
            if parts[0] == "nvidia" and len(parts) > 2:
                return _longest(parts[-1], self._by_file)
            by_module: OwnerRow | None = self._by_module.get(parts[0]) if parts[1:] else None
            if by_module is not None:
                return by_module
            if len(parts) > 1 and not _NO_PACKAGE.search(parts[0]):
                return None  # another package's: its folder is its name
        return _longest(re.split(r"[/\\]", path)[-1], self._by_file)

    def package_of_file(self, path: str) -> str:
        """The distribution that a file belongs to; empty where its path does not tell.

        A folder of ``site-packages`` that no row names is taken for its distribution's name.
        """
        row = self.owner_of_file(path)
        if row is not None:
            return row.package
        inside = _INSTALLED.search(path)
        parts = re.split(r"[/\\]", inside["rest"]) if inside is not None else []
        if len(parts) < 2:
            return ""
        return parts[0].removesuffix(".libs").replace("_", "-").lower()

    def library_of_symbol(self, symbol: str) -> SharedLibrary | None:
        """The library whose functions are named so; the longest beginning counts."""
        return _longest_start(symbol, [(s, row) for row in self.libraries for s in row.symbols])


def _index(document: Document, array: str, column: str, rows: tuple[Any, ...]) -> dict[str, Any]:
    """Rows by each of their names.

    Raises:
        MatrixError: Two rows state one name.
    """
    found: dict[str, Any] = {}
    for place, row in zip(document.rows(array), rows, strict=True):
        for name in getattr(row, column):
            if name in found:
                raise place.error(column, f"{name!r} is stated twice")
            found[name] = row
    return found


def _longest(name: str, rows: Iterable[tuple[str, T]]) -> T | None:
    """The row whose name, or beginning before a ``*``, fits the most of a file's name."""
    stem = _stem(name)
    fits = [
        (len(pattern), row)
        for pattern, row in rows
        if (stem.startswith(pattern[:-1]) if pattern.endswith("*") else stem == pattern)
    ]
    return max(fits, key=lambda pair: pair[0])[1] if fits else None


def _stem(name: str) -> str:
    """A file's name without what follows ``.so``, ``.pyd``, ``.dll``, and without Python's tag."""
    stem = re.split(r"\.(?:so|pyd|dll|dylib)\b|\.cpython-|\.abi3", name)[0]
    return re.sub(r"_\d{1,4}\Z", "", stem) if name.endswith(".dll") else stem


def _longest_start(text: str, rows: Iterable[tuple[str, T]]) -> T | None:
    fits = [(len(start), row) for start, row in rows if text.startswith(start)]
    return max(fits, key=lambda pair: pair[0])[1] if fits else None
