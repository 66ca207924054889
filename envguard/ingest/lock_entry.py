"""What every kind of lockfile comes down to: entries, and which of them an environment takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.environment import Manager
from envguard.facts.gaps import Gap
from envguard.facts.lock_record import LockRecord
from envguard.facts.machine import OperatingSystem, Platform

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_ENTRIES = 50_000
_MAX_OF_ONE = 60
# (marker variables, name of an extra or group or "") -> positions of the entries taken
Select = Callable[[Mapping[str, str], str], frozenset[int]]


@dataclass(frozen=True, slots=True)
class Target:
    """The environment that a lock is read for; None is not known.

    Args:
        platform: System and processor.
        python: Python version, possibly major and minor only.
        is_free_threaded: The Python is the build without the GIL.
    """

    platform: Platform | None = None
    python: Version | None = None
    is_free_threaded: bool = False

    def __str__(self) -> str:
        words = [str(self.platform)] if self.platform else []
        words += [f"Python {self.python}"] if self.python else []
        return ", ".join(words) or "a platform that is not stated"


@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel of an entry; the address is None where the lock names the file only."""

    filename: str
    url: str | None = None

    @property
    def label(self) -> str:
        """The local version label in its name, or an empty string."""
        version = self.filename.split("-")[1] if self.filename.count("-") >= 4 else ""
        return version.partition("+")[2]

    def fits(self, target: Target) -> bool:
        """Whether its tags admit a target, as far as the target is known."""
        words = self.filename.removesuffix(".whl").split("-")
        if len(words) < 5:
            return False
        python, abi, platform = words[-3:]
        return _fits_platform(platform, target.platform) and _fits_python(python, abi, target)


def _fits_platform(tag: str, platform: Platform | None) -> bool:
    if platform is None:
        return True
    return any(_is_on(word, platform) for word in tag.split("."))


def _is_on(tag: str, platform: Platform) -> bool:
    match platform.system:
        case OperatingSystem.LINUX:
            return tag == "any" or ("linux" in tag and tag.endswith(platform.arch))
        case OperatingSystem.WINDOWS:
            names = {"x86_64": "win_amd64", "aarch64": "win_arm64"}
            return tag in {"any", names[platform.arch]}
        case OperatingSystem.MACOS:
            names = {"x86_64": "x86_64", "aarch64": "arm64"}
            is_mac = tag.startswith("macosx") and tag.endswith((names[platform.arch], "universal2"))
            return tag == "any" or is_mac


def _fits_python(python: str, abi: str, target: Target) -> bool:
    if target.python is None:
        return True
    major, minor = target.python.major, target.python.minor
    tags = python.split(".")
    if f"py{major}" in tags or f"py{major}{minor}" in tags:
        return True
    if abi == "abi3":
        return any(_minor(tag, major) <= minor for tag in tags) and not target.is_free_threaded
    has_t = abi.endswith("t") and abi.startswith("cp")
    return f"cp{major}{minor}" in tags and has_t == target.is_free_threaded


def _minor(tag: str, major: int) -> int:
    digits = tag.removeprefix(f"cp{major}")
    return int(digits) if digits.isdecimal() and len(digits) < 4 and digits != tag else 1000


@dataclass(frozen=True, slots=True)
class Entry:
    """One package of a lock.

    Args:
        name: Normalised name.
        version: None where the lock states none (local projects, open requirements).
        line: Line of the file where it stands, from 1.
        wheels: Its wheels, of all platforms.
        has_source: It can be built, or is a local project.
        index_url: Index that it comes from.
        url: Its own address, in place of an index.
        is_editable: Installed from a source tree.
        note: Which alternative it is (``extra cpu``), for people.
        trouble: Why its build cannot be told although an index is stated.
    """

    name: str
    version: Version | None
    line: int | None = None
    wheels: tuple[Wheel, ...] = ()
    has_source: bool = False
    index_url: str | None = None
    url: str | None = None
    is_editable: bool = False
    note: str = ""
    trouble: str = ""

    def __str__(self) -> str:
        line = f"line {self.line}" if self.line else ""
        inside = ", ".join(word for word in (line, self.note) if word)
        version = str(self.version) if self.version else "(version not stated)"
        return f"{version} ({inside})" if inside else version


@dataclass(frozen=True, slots=True)
class Locked:
    """A lockfile as its format's reader understands it.

    Args:
        manager: Whose lock it is.
        entries: All of them, in the file's order.
        select: Which entries an environment takes, alone or with one extra or group.
        choices: Names of the extras and groups that nothing takes by default.
        requires_python: Specifier text, or empty.
        record: What envguard wrote into it.
        gaps: What the reader had to leave out.
        is_open: It need not list everything: an installer adds what its entries require.
    """

    manager: Manager
    entries: tuple[Entry, ...]
    select: Select
    choices: tuple[str, ...] = ()
    requires_python: str = ""
    record: LockRecord | None = None
    gaps: tuple[Gap, ...] = field(default_factory=tuple)
    is_open: bool = False


def check_counts(entries: Iterable[Entry], name: str) -> None:
    """Refuse what is no lockfile by its size alone.

    Raises:
        InputError: More packages, or more entries of one package, than any lock holds.
    """
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.name] = counts.get(entry.name, 0) + 1
    if sum(counts.values()) > _MAX_ENTRIES:
        raise InputError(f"{name}: more than {_MAX_ENTRIES} packages")
    for package, count in counts.items():
        if count > _MAX_OF_ONE:
            raise InputError(f"{name}: package {package[:100]} stands there {count} times")


def wheels_of(urls: Iterable[str]) -> tuple[Wheel, ...]:
    """Wheels from their addresses or bare file names."""
    found = []
    for url in urls:
        filename = url.partition("#")[0].partition("?")[0].rpartition("/")[2]
        plain = filename.replace("%2B", "+").replace("%2b", "+")
        if plain.endswith(".whl"):
            found.append(Wheel(plain, url if "://" in url else None))
    return tuple(found)
