"""What every kind of lockfile comes down to: entries, and which of them an environment takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.environment import Manager, TorchBuild
from envguard.facts.gaps import Gap
from envguard.facts.lock_record import LockRecord
from envguard.facts.machine import OperatingSystem, Platform
from envguard.facts.versions import refuse_long_numbers
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable


_PLATFORMS = (
    Platform(OperatingSystem.LINUX, "x86_64"),
    Platform(OperatingSystem.LINUX, "aarch64"),
    Platform(OperatingSystem.WINDOWS, "x86_64"),
    Platform(OperatingSystem.MACOS, "aarch64"),
)
_PYTHONS = tuple(Version(f"3.{minor}") for minor in range(9, 15))
_SYS_PLATFORM = {
    OperatingSystem.LINUX: ("linux", "Linux", "posix"),
    OperatingSystem.WINDOWS: ("win32", "Windows", "nt"),
    OperatingSystem.MACOS: ("darwin", "Darwin", "posix"),
}
_MACHINES = {
    (OperatingSystem.WINDOWS, "x86_64"): "AMD64",
    (OperatingSystem.WINDOWS, "aarch64"): "ARM64",
    (OperatingSystem.MACOS, "aarch64"): "arm64",
}


def environments_of(target: LockfileTarget, requires_python: str) -> tuple[dict[str, str], ...]:
    """The environments that a target may be.

    Args:
        target: As far as it is known.
        requires_python: Bounds the Pythons that are considered where none is stated.

    Returns:
        One for a target that is known; else one for each common platform and for the oldest
        and newest Python that the lock admits.
    """
    platforms = (target.platform,) if target.platform else _PLATFORMS
    pythons = (target.python,) if target.python else _pythons(requires_python)
    return tuple(marker_variables(p, python) for p in platforms for python in pythons)


def _pythons(requires_python: str) -> tuple[Version, ...]:
    admitted = [python for python in _PYTHONS if admits(requires_python, python)]
    return tuple(dict.fromkeys((admitted or list(_PYTHONS))[:: max(1, len(admitted) - 1)]))


def admits(specifier: str, python: Version) -> bool:
    """Whether a ``requires-python`` admits a version; a specifier that is none admits all."""
    try:
        return SpecifierSet(specifier).contains(python, prereleases=True)
    except ValueError:  # no specifier, or a number beyond Python's limit of digits
        return True


def marker_variables(platform: Platform, python: Version) -> dict[str, str]:
    """The whole marker environment of a CPython; nothing is left to the running machine."""
    sys_platform, system, os_name = _SYS_PLATFORM[platform.system]
    release = python.release
    full = f"{release[0]}.{release[1] if len(release) > 1 else 0}" + (
        f".{release[2]}" if len(release) > 2 else ".0"
    )
    return {
        "implementation_name": "cpython",
        "implementation_version": full,
        "os_name": os_name,
        "platform_machine": _MACHINES.get((platform.system, platform.arch), platform.arch),
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": system,
        "platform_version": "",
        "python_full_version": full,
        "python_version": f"{release[0]}.{release[1] if len(release) > 1 else 0}",
        "sys_platform": sys_platform,
    }


@lru_cache(maxsize=4096)
def parse_marker(text: str) -> Marker:
    """Parse a marker.

    Raises:
        ValueError: It is none.
    """
    try:
        return Marker(refuse_long_numbers(text))
    except ValueError as err:  # InvalidMarker among others
        raise ValueError(str(err).splitlines()[0]) from err
    except RecursionError as err:
        raise ValueError("nested too deeply") from err


def holds(
    marker: str,
    environment: Mapping[str, str],
    *,
    extra: str = "",
    groups: frozenset[str] = frozenset(),
) -> bool:
    """Whether a marker holds; one that cannot be decided is taken to hold.

    Args:
        marker: Its text, parsed before; empty holds everywhere.
        environment: From :func:`marker_variables`.
        extra: The one extra that is asked for.
        groups: The dependency groups that are asked for.
    """
    if not marker:
        return True
    extras = frozenset({extra} if extra else ())
    sets: dict[str, str | frozenset[str]] = {"extras": extras, "dependency_groups": groups}
    variables = {**environment, "extra": extra, **sets}
    try:
        context = "lock_file" if "extras" in marker or "dependency_groups" in marker else "metadata"
        return parse_marker(marker).evaluate(variables, context=context)  # type: ignore[arg-type]  # one of its literals
    except (UndefinedComparison, UndefinedEnvironmentName, ValueError):
        return True


_MAX_ENTRIES = 50_000
_MAX_OF_ONE = 60
# (marker variables, name of an extra or group or "") -> positions of the entries taken
Select = Callable[[Mapping[str, str], str], frozenset[int]]


@dataclass(frozen=True, slots=True)
class LockfileTarget:
    """The environment that a lock is read for; None is not known.

    Args:
        platform: System and processor.
        python: Python version, possibly major and minor only.
        is_free_threaded: The Python is the build without the GIL.
        is_python_stated: The Python is the one meant; else what the file says of it goes first.
    """

    platform: Platform | None = None
    python: Version | None = None
    is_free_threaded: bool = False
    is_python_stated: bool = True

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

    def fits(self, target: LockfileTarget) -> bool:
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


def _fits_python(python: str, abi: str, target: LockfileTarget) -> bool:
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
        wish: The versions that it admits where it is a requirement without a pin; None for
            what states a version or an address.
        by_conda: Conda installs it: no wheel and no index of pip's.
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
    wish: SpecifierSet | None = None
    by_conda: bool = False

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
        indexes: Indexes that it names, the main one first; see ``Environment.indexes``.
        python: The Python that it asks for itself, as conda's files and base images do.
        markers: Environments that it is made for; empty for all that ``requires_python`` admits.
        torch: The torch build, where the format says more of it than an entry can.
        image: The image that it builds on, as a Dockerfile names it.
        in_order: See ``Environment.in_order``.
    """

    manager: Manager
    entries: tuple[Entry, ...]
    select: Select
    choices: tuple[str, ...] = ()
    requires_python: str = ""
    record: LockRecord | None = None
    gaps: tuple[Gap, ...] = field(default_factory=tuple)
    is_open: bool = False
    indexes: tuple[str, ...] = ()
    python: Version | None = None
    markers: tuple[str, ...] = ()
    torch: TorchBuild | None = None
    image: str = ""
    in_order: bool = False


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
