"""Pins and artifacts, and the two texts of uv that they are read from."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from envguard.errors import NetworkError, ToolError
from envguard.lock.package_index import plain_file, plain_index
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LISTED = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)")
_DIRECT = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])? @ (?P<url>[^\s;\\]+)")
_FROM = re.compile(r"\s+# from (?P<index>\S+)")
_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_")
_LEGACY_MANYLINUX = {"manylinux1_": "2.5", "manylinux2010_": "2.12", "manylinux2014_": "2.17"}
_VIA = re.compile(r"\s+# (?:via\s*|  )(?P<parent>\S.*)?")


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file of a release.

    Args:
        filename: As in its address, unquoted.
        url: Where it lies, without credentials and query; nothing in it expands.
        hashes: Pairs of algorithm and hexadecimal digest; never empty.
        size: In bytes; None when the index does not say.
        had_query: The index gave the address with a query, which no lock holds.
    """

    filename: str
    url: str
    hashes: tuple[tuple[str, str], ...]
    size: int | None = None
    had_query: bool = False

    @property
    def is_wheel(self) -> bool:
        """A wheel; the alternative is a source distribution."""
        return self.filename.endswith(".whl")

    @property
    def sha256(self) -> str | None:
        """The sha256 digest, or None when the index gives another algorithm only."""
        return dict(self.hashes).get("sha256")


@dataclass(frozen=True, slots=True)
class Pin:
    """One package of a lock.

    Args:
        name: Normalised name.
        version: With its local label, if any.
        marker: Condition on installing it; empty for none.
        index_url: The index that it comes from, without credentials; empty for a file that was
            asked for by its address.
        artifacts: The wheels that run on the target, or the source distribution where there is
            no wheel.
    """

    name: NormalizedName
    version: Version
    marker: str
    index_url: str
    artifacts: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True)
class ListedPin:
    """One line of a resolution.

    Args:
        name: Normalised name.
        version: With its local label.
        index_url: Where uv took it from, without credentials; empty when it did not say.
        parents: What asks for it.
        is_direct: It was asked for by the address of its wheel, and the version is the one in
            the wheel's name.
    """

    name: NormalizedName
    version: Version
    index_url: str
    parents: frozenset[str]
    is_direct: bool = False


def parse_listing(text: str) -> tuple[ListedPin, ...]:
    """Read the requirements that uv writes, with its remarks on origin.

    Args:
        text: Output of ``uv pip compile --emit-index-annotation``, without hashes.

    Returns:
        The packages in the order written.
    """
    found: list[ListedPin] = []
    for line in text.splitlines():
        if (match := _LISTED.match(line)) or (match := _DIRECT.match(line)):
            found.append(_listed(match))
        elif found and (match := _FROM.match(line)):
            found[-1] = replace(found[-1], index_url=plain_index(match["index"]))
        elif found and (match := _VIA.match(line)) and match["parent"]:
            parents = found[-1].parents | {match["parent"].split()[0]}
            found[-1] = replace(found[-1], parents=parents)
    return tuple(found)


def _listed(match: re.Match[str]) -> ListedPin:
    name, fields = canonicalize_name(match["name"]), match.groupdict()
    if "version" in fields:
        return ListedPin(name, _parse_version(match["version"]), "", frozenset())
    file_name = unquote(urlsplit(match["url"]).path.rpartition("/")[2])
    version = file_name.split("-")[1] if file_name.count("-") > 1 else ""
    return ListedPin(name, _parse_version(version), "", frozenset(), is_direct=True)


def parse_uv_pylock(text: str, indexes: Mapping[NormalizedName, str]) -> tuple[Pin, ...]:
    """Read the ``pylock.toml`` that uv writes.

    Args:
        text: The document.
        indexes: Where each package comes from; uv leaves that out of this document.

    Returns:
        The pins by name.

    Raises:
        ToolError: The document is not what uv is known to write.
        NetworkError: An index gives no hash for a file.
    """
    try:
        packages = tomllib.loads(text).get("packages", [])
        pins = [_read_package(package, indexes) for package in packages]
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as err:
        raise ToolError(f"uv wrote a pylock.toml that cannot be read: {err}") from err
    return tuple(sorted(pins, key=lambda pin: (pin.name, pin.version, pin.marker)))


def glibc_needed(pins: Iterable[Pin]) -> Version | None:
    """The oldest glibc on which every wheel runs, as their names state; None when none does."""
    needs = [_glibc_of(pin) for pin in pins]
    return max((need for need in needs if need is not None), default=None)


def _glibc_of(pin: Pin) -> Version | None:
    """The least demanding wheel of a pin counts: the installer takes what runs."""
    stated: list[Version] = []
    for artifact in pin.artifacts:
        platforms = artifact.filename.removesuffix(".whl").rpartition("-")[2].split(".")
        found = [_manylinux(platform) for platform in platforms]
        if not artifact.is_wheel or None in found:
            return None
        stated.extend(version for version in found if version is not None)
    return min(stated, default=None)


def _manylinux(platform: str) -> Version | None:
    for legacy, version in _LEGACY_MANYLINUX.items():
        if platform.startswith(legacy):
            return Version(version)
    match = _MANYLINUX.match(platform)
    return Version(f"{match[1]}.{match[2]}") if match else None


def _read_package(package: Mapping[str, Any], indexes: Mapping[NormalizedName, str]) -> Pin:
    name = canonicalize_name(package["name"])
    files = package.get("wheels") or [package[k] for k in ("sdist", "archive") if k in package]
    artifacts = tuple(_read_artifact(file, name) for file in files)
    if not artifacts:
        raise ToolError(f"uv names no file for {name}")
    return Pin(
        name=name,
        version=_version_of(package, artifacts[0]),
        marker=package.get("marker", ""),
        index_url=indexes.get(name, ""),
        artifacts=tuple(sorted(artifacts, key=lambda artifact: artifact.filename)),
    )


def _version_of(package: Mapping[str, Any], artifact: Artifact) -> Version:
    """The version; of a wheel that was asked for by its address the one in its name.

    A prebuilt wheel is named after torch and CUDA too, and uv compares a lock with the name.
    """
    if "archive" in package and artifact.is_wheel:
        return _parse_version(artifact.filename.split("-")[1])
    return _parse_version(package["version"])


def _read_artifact(file: Mapping[str, Any], name: str) -> Artifact:
    if "url" not in file:
        raise ToolError(
            f"{name} comes from a local folder ({file.get('path')}), which no other machine has",
            hint="leave find-links out of uv's configuration for this command",
        )
    url, query = plain_file(file["url"]), urlsplit(file["url"]).query
    hashes = tuple(sorted(file.get("hashes", {}).items()))
    filename = file.get("name") or unquote(urlsplit(url).path.rpartition("/")[2])
    if not hashes:
        raise NetworkError(f"the index gives no hash for {filename}")
    return Artifact(filename, url, hashes, file.get("size"), had_query=bool(query))


def _parse_version(text: str) -> Version:
    try:
        return Version(text)
    except ValueError as err:  # InvalidVersion, or more digits than Python reads
        raise ToolError(f"uv names a version that is none: {text!r}") from err
