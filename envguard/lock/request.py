"""What is to be locked: requirements, for which machines, platform and Python, from where."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.machine import Machine, OperatingSystem, Platform
from envguard.facts.versions import Backend, refuse_long_numbers
from envguard.lock.package_index import IndexSettings
from envguard.redaction import clean_text
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable


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
class FurtherIndex:
    """An index besides the default one.

    Args:
        url: Its address.
        is_flat: It is a page of links.
    """

    url: str
    is_flat: bool = False


@dataclass(frozen=True, slots=True)
class PassedLine:
    """A line of a requirements file that names no published release.

    Args:
        text: As it is written, without credentials.
        where: ``file:line``.
        name: Normalised name of the package, as far as the line tells it; empty for unknown.
        kind: ``vcs``, ``archive`` or ``directory``.
        marker: Condition on installing it; empty for none.
    """

    text: str
    where: str
    name: str
    kind: str
    marker: str = ""


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
        passed: Lines of requirements files about addresses, paths and editable installs, which
            are carried along as they are written.
        more_indexes: Further indexes that files name; a package is taken from one of them only
            where it was asked for by name and the default index does not have it.
        from_index: Those packages, each with its index.
        uv_options: What files say of wheels, sources and pre-releases, as uv's options.
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
    passed: tuple[PassedLine, ...] = ()
    more_indexes: tuple[FurtherIndex, ...] = ()
    from_index: tuple[tuple[NormalizedName, FurtherIndex], ...] = ()
    uv_options: tuple[str, ...] = ()

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
