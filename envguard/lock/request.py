"""What is to be locked: requirements, for which machines, platform and Python, from where."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.machine import Machine, OperatingSystem, Platform
from envguard.facts.versions import Backend, refuse_long_numbers
from envguard.files import read_utf8
from envguard.lock.package_index import IndexSettings
from envguard.redaction import clean_text
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from envguard.ingest.requirements import Statement


_SYS_PLATFORM = {
    OperatingSystem.LINUX: "linux",
    OperatingSystem.WINDOWS: "win32",
    OperatingSystem.MACOS: "darwin",
}
_PLATFORM_SYSTEM = {
    OperatingSystem.LINUX: "Linux",
    OperatingSystem.WINDOWS: "Windows",
    OperatingSystem.MACOS: "Darwin",
}
_MACHINE = {
    (OperatingSystem.WINDOWS, "x86_64"): "AMD64",
    (OperatingSystem.WINDOWS, "aarch64"): "ARM64",
    (OperatingSystem.MACOS, "aarch64"): "arm64",
}
_MAX_BYTES = 4 * 1024 * 1024
_HASH = re.compile(r"\s--hash\b")
_INDEX_OPTIONS = frozenset({"-i", "--index-url", "--extra-index-url", "-f", "--find-links"})
# What uv's --python-platform knows; a glibc in between takes the next older one.
_GLIBC_STEPS = ((2, 17), (2, 28), *((2, minor) for minor in range(31, 41)))
_TRIPLES = {
    "windows-x86_64": "x86_64-pc-windows-msvc",
    "windows-aarch64": "aarch64-pc-windows-msvc",
    "macos-x86_64": "x86_64-apple-darwin",
    "macos-aarch64": "aarch64-apple-darwin",
}


@dataclass(frozen=True, slots=True)
class Target:
    """The interpreter and system that the lock is for.

    Args:
        platform: System and processor.
        python: Major and minor, ``3.12``.
        glibc: Oldest glibc among the machines; None when not known or off Linux.
        is_free_threaded: The Python is the build without the GIL.
    """

    platform: Platform
    python: Version
    glibc: Version | None = None
    is_free_threaded: bool = False

    @property
    def python_tag(self) -> str:
        """As in the ABI of wheel names: ``cp312``, ``cp313t``."""
        return f"cp{self.python.major}{self.python.minor}{'t' if self.is_free_threaded else ''}"

    @property
    def python_words(self) -> str:
        """For people: ``3.12``, ``3.13t``."""
        return f"{self.python}{'t' if self.is_free_threaded else ''}"

    @property
    def uv_platform(self) -> str:
        """The value of uv's ``--python-platform``."""
        if self.platform.system is not OperatingSystem.LINUX:
            return _TRIPLES[str(self.platform)]
        if self.glibc is None:
            return f"{self.platform.arch}-unknown-linux-gnu"
        known = (self.glibc.major, self.glibc.minor)
        step = max((s for s in _GLIBC_STEPS if s <= known), default=_GLIBC_STEPS[0])
        return f"{self.platform.arch}-manylinux_{step[0]}_{step[1]}"

    @property
    def marker(self) -> str:
        """The marker that holds on the target and nowhere else."""
        variables = self.marker_variables
        names = ("python_version", "sys_platform", "platform_machine")
        return " and ".join(f"{name} == '{variables[name]}'" for name in names)

    @property
    def marker_variables(self) -> dict[str, str]:
        """The target's environment for evaluating markers (PEP 508 names)."""
        system = self.platform.system
        full = f"{self.python.major}.{self.python.minor}.0"
        return {
            "implementation_name": "cpython",
            "implementation_version": full,
            "os_name": "nt" if system is OperatingSystem.WINDOWS else "posix",
            "platform_machine": _MACHINE.get((system, self.platform.arch), self.platform.arch),
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": _PLATFORM_SYSTEM[system],
            "platform_version": "",
            "python_full_version": full,
            "python_version": f"{self.python.major}.{self.python.minor}",
            "sys_platform": _SYS_PLATFORM[system],
        }


@dataclass(frozen=True, slots=True)
class LockRequest:
    """Everything that decides what the lock holds.

    Args:
        requirements: What is asked for.
        constraints: Bounds on whatever comes along.
        machines: All of them must be served; empty for none in particular.
        target: Platform, Python and glibc.
        indexes: Where packages come from.
        backend: Only this torch backend; None for the best one.
        exact_only: The driver must be at least the toolkit's own.
        exclude_newer: Packages uploaded after this time do not exist (RFC 3339 or a date).
        is_offline: Only what uv has in its cache.
        preferred: Pins of an earlier lock, kept where they serve.
        preferred_build: Version and backend of its torch, likewise.
        allow_build: Extensions without a prebuilt wheel may be built on the machine.
        release_base: Where prebuilt wheels are looked for; None for GitHub.
    """

    requirements: tuple[Requirement, ...]
    target: Target
    constraints: tuple[Requirement, ...] = ()
    machines: tuple[Machine, ...] = ()
    indexes: IndexSettings = IndexSettings()
    backend: Backend | None = None
    exact_only: bool = False
    exclude_newer: str | None = None
    is_offline: bool = False
    preferred: tuple[Requirement, ...] = ()
    preferred_build: tuple[Version, Backend] | None = None
    allow_build: bool = False
    release_base: str | None = None

    @property
    def torch(self) -> SpecifierSet:
        """The bounds on torch that hold on the target; empty when there are none."""
        return self.bounds_on(canonicalize_name("torch"))

    def bounds_on(self, name: NormalizedName) -> SpecifierSet:
        """The bounds that requirements and constraints put on a package on the target."""
        bounds = SpecifierSet()
        for requirement in (*self.requirements, *self.constraints):
            if canonicalize_name(requirement.name) == name and self.applies(requirement):
                bounds &= requirement.specifier
        return bounds

    def applies(self, requirement: Requirement) -> bool:
        """Whether a requirement's marker holds on the target."""
        return requirement.marker is None or requirement.marker.evaluate(
            self.target.marker_variables
        )

    @property
    def names(self) -> frozenset[NormalizedName]:
        """Names of the packages asked for on the target."""
        return frozenset(canonicalize_name(r.name) for r in self.requirements if self.applies(r))


def parse_requirement(text: str, where: str) -> Requirement:
    """Read one requirement.

    Args:
        text: ``torch<2.8``, with an optional marker.
        where: ``file:line`` or ``argument``, for messages.

    Raises:
        InputError: It does not parse, or is an address, a path or an editable install, which a
            lock of published packages cannot hold.
    """
    stripped = text.strip()
    if _is_address(stripped):
        raise InputError(
            f"{where}: {clean_text(stripped)!r} is an address or path, not a requirement",
            hint="name the package and its version: envguard lock pins published packages",
        )
    try:
        requirement = Requirement(refuse_long_numbers(stripped))
    except (ValueError, RecursionError) as err:
        reason = str(err).splitlines()[0].rstrip(".").replace("Expected", "expected")
        raise InputError(f"{where}: requirement {stripped!r} cannot be read: {reason}") from err
    if requirement.url is not None:
        raise InputError(
            f"{where}: {requirement.name} is asked for by address ({clean_text(requirement.url)})",
            hint="name its version instead: envguard lock pins published packages",
        )
    return requirement


def _is_address(text: str) -> bool:
    head = text.partition(";")[0].partition("#")[0].strip()
    is_named = " @ " in head or "@" in head.partition("://")[0]
    return not is_named and ("://" in head or head.startswith((".", "/", "~")) or _is_file(head))


def _is_file(head: str) -> bool:
    return head.endswith((".whl", ".tar.gz", ".zip")) or "\\" in head


def parse_arguments(words: Iterable[str]) -> tuple[Requirement, ...]:
    """Read the requirements given as arguments.

    Raises:
        InputError: One does not parse; the message names it.
    """
    return tuple(parse_requirement(word, "argument") for word in words)


@dataclass(frozen=True, slots=True)
class FileContents:
    """What requirements files say.

    Args:
        requirements: In the order read.
        constraints: Likewise.
        notes: What was left out and why.
    """

    requirements: tuple[Requirement, ...] = ()
    constraints: tuple[Requirement, ...] = ()
    notes: tuple[str, ...] = ()


def load_requirement_files(paths: Iterable[Path]) -> FileContents:
    """Read requirements files and all that they include.

    Args:
        paths: The files, in order.

    Raises:
        InputError: A file cannot be read, includes itself, or holds something that a lock of
            published packages cannot: editable installs, addresses, hashes, other options.
            The message names file and line.
    """
    from envguard.ingest.requirements import read_statements  # most requests name no file

    wanted: list[Requirement] = []
    constraints: list[Requirement] = []
    notes: list[str] = []
    for path in paths:
        for said in read_statements(read_utf8(path, _MAX_BYTES), str(path), _read_beside):
            if said.option:
                notes.append(_option_note(said))
            else:
                target = constraints if said.is_constraint else wanted
                target.append(_stated_requirement(said))
    return FileContents(tuple(wanted), tuple(constraints), tuple(notes))


def _read_beside(path: str, including: str) -> tuple[str, str]:
    """A nested file, from where the one lies that names it."""
    place = Path(including).parent / path
    return str(place), read_utf8(place, _MAX_BYTES)


def _stated_requirement(said: Statement) -> Requirement:
    if _HASH.search(said.text):
        raise InputError(
            f"{said.where}: hashes in a request are not used",
            hint="leave them out: the lock holds the hashes of what it pins",
        )
    return parse_requirement(said.text, said.where)


def _option_note(said: Statement) -> str:
    """What is said of an option that changes nothing: the PyTorch index is chosen here anyway.

    Raises:
        InputError: It would change something; any other index is a decision to be repeated.
    """
    option, value, where = said.option, clean_text(said.text), said.where
    if option in {"-r", "-c"}:
        wrong = "is an address" if "://" in said.text else "has a variable in its name"
        raise InputError(f"{where}: {value!r} {wrong}, expected a file")
    if option in {"-e", "--editable"}:
        raise InputError(
            f"{where}: editable install {value!r} cannot be locked",
            hint="name the package and its version: envguard lock pins published packages",
        )
    if option not in _INDEX_OPTIONS:
        raise InputError(f"{where}: option {option} is not understood")
    if "//download.pytorch.org/" in said.text:
        return f"{where}: {option} is left out, the PyTorch index is chosen per machine"
    raise InputError(
        f"{where}: {option} {value} is not taken from a file",
        hint="state it as --index-url or --torch-index, or in uv's own configuration",
    )


def parse_date(text: str | None) -> str | None:
    """Check a cut-off date as uv takes it.

    Args:
        text: ``2026-06-30`` or an RFC 3339 time; None for none.

    Raises:
        InputError: It is neither.
    """
    if text is None:
        return None
    try:
        datetime.fromisoformat(text)
    except ValueError as err:
        raise InputError(f"--exclude-newer: {text!r} is not a date such as 2026-06-30") from err
    return text
