"""Environments for markers: one where the target is known, several to agree where it is not."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.facts.machine import OperatingSystem, Platform
from envguard.facts.versions import refuse_long_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envguard.ingest.lock_entry import Target

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


def environments_of(target: Target, requires_python: str) -> tuple[dict[str, str], ...]:
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
