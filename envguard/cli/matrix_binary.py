"""``envguard matrix verify --binary``: reads real wheels of torch and compares the rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from envguard.binary.torch_wheel import interpreter_of, read_torch_wheel
from envguard.binary.wheel import MEGABYTE
from envguard.binary.wheel_files import open_wheel
from envguard.cli.wheel_report import WheelReport
from envguard.errors import InputError, NetworkError, ToolError
from envguard.facts.machine import OperatingSystem, Platform
from envguard.fetch.registry import Registry
from envguard.files import is_folder
from envguard.matrix.wheel_rows import compare_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packaging.tags import Tag

    from envguard.matrix.loader import Matrix

OLDEST = Version("2.6.0")
_PYTHON = re.compile(r"cp3(\d+)t?")
_PLATFORM = re.compile(r"(?:manylinux\w*?|linux)_x86_64")
_USUAL = "cp311"
_LINUX = Platform(OperatingSystem.LINUX, "x86_64")


@dataclass(frozen=True, slots=True)
class WheelRequest:
    """Which wheels are read, and how much of them.

    Args:
        releases: These; none stands for every one from torch 2.6 on.
        python_tag: The interpreter; empty for CPython 3.11, or the nearest that there is.
        folder: Wheels in it are not downloaded.
        index_url: Registry; empty for the one that uv is configured for.
        offline: Read the wheels of the folder only.
        largest_bytes: Compiled files above it are not downloaded.
    """

    releases: tuple[Version, ...] = ()
    python_tag: str = ""
    folder: Path | None = None
    index_url: str = ""
    offline: bool = False
    largest_bytes: int | None = None


def read_wheels(
    matrix: Matrix, request: WheelRequest, say: Callable[[str], None] = lambda _: None
) -> WheelReport:
    """Read wheel after wheel and compare the rows; each is gone before the next one comes.

    Args:
        matrix: The tables.
        request: Which wheels.
        say: Told what is being read.

    Raises:
        InputError: The request names a folder that does not exist.
    """
    report, registry = WheelReport(), Registry(request.index_url)
    local = dict(_local_wheels(request))
    for release in _releases(matrix, request, local, registry, report):
        say(f"reading the wheel of torch {release}")
        try:
            address = local.get(release) or _published(matrix, release, request, registry)
            with open_wheel(address) as files:
                wheel = read_torch_wheel(files, request.largest_bytes)
        except (NetworkError, InputError, ToolError) as err:
            report.miss(f"torch {release}", err.message)
            continue
        report.wheels.append(wheel)
        report.add(compare_wheel(matrix, wheel))
    return report


def _releases(
    matrix: Matrix,
    request: WheelRequest,
    local: dict[Version, str],
    registry: Registry,
    report: WheelReport,
) -> tuple[Version, ...]:
    """What is read, oldest first; a release without a row is reported at once."""
    if request.releases:
        return tuple(sorted(request.releases))
    if request.offline:
        return tuple(sorted(local))
    known = [r.version for r in matrix.torch.releases if r.version >= OLDEST]
    try:
        listed = registry.versions("torch")
    except (NetworkError, ToolError) as err:
        report.miss("the list of releases", err.message)
        listed = ()
    newer = [v for v in listed if v > max(known, default=OLDEST) and not v.is_prerelease]
    return tuple(sorted((*known, *newer)))


def _local_wheels(request: WheelRequest) -> Iterator[tuple[Version, str]]:
    """The wheels of the folder by release."""
    if request.folder is None:
        return
    if not is_folder(request.folder):
        raise InputError(f"--wheels: {request.folder} is no folder")
    for path in sorted(request.folder.glob("torch-*.whl")):
        if _fits(path.name, request.python_tag):
            yield parse_wheel_filename(path.name)[1], str(path)


def _published(matrix: Matrix, release: Version, request: WheelRequest, registry: Registry) -> str:
    """The address of the registry's wheel.

    Raises:
        NetworkError: It has none, or did not answer.
        InputError: The network is forbidden.
    """
    if request.offline:
        raise InputError("no wheel of it in the folder, and --offline forbids asking the registry")
    tag = request.python_tag or _python_of(matrix, release)
    match = _PYTHON.fullmatch(tag)
    if match is None:
        raise InputError(f"--python-tag: {tag!r} is not a tag such as cp311")
    found = [
        (parse_wheel_filename(name)[2], address)
        for address in registry.addresses("torch", release, f"3.{match[1]}")
        if _fits(name := address.rpartition("/")[2], tag)
    ]
    if not found:
        raise NetworkError(f"the registry lists no wheel of {tag} for linux-x86_64")
    return max(found)[1]  # of several builds the last one is installed


def _python_of(matrix: Matrix, release: Version) -> str:
    row = matrix.torch.release(release)
    pythons = row.pythons.get(_LINUX, ()) if row else ()
    if not pythons or _USUAL in pythons:
        return _USUAL
    is_older = int(pythons[-1].removeprefix("cp3").rstrip("t")) < int(_USUAL.removeprefix("cp3"))
    return pythons[-1] if is_older else pythons[0]


def _fits(name: str, python: str) -> bool:
    """Whether a file is a wheel for Linux x86_64 and an interpreter; an empty one admits all."""
    try:
        _, _, _, tags = parse_wheel_filename(name)
    except ValueError:  # InvalidWheelFilename, or more digits than Python reads
        return False
    return any(_PLATFORM.fullmatch(tag.platform) and _is_for(tag, python) for tag in tags)


def _is_for(tag: Tag, python: str) -> bool:
    return not python or interpreter_of(tag) == python


def largest_bytes(mebibytes: int | None) -> int | None:
    """``--largest`` in bytes."""
    return None if mebibytes is None else mebibytes * MEGABYTE


def parse_releases(texts: Iterable[str]) -> tuple[Version, ...]:
    """Read the releases that a person names.

    Raises:
        InputError: One is no version.
    """
    found = []
    for text in texts:
        try:
            found.append(Version(text))
        except ValueError as err:
            raise InputError(f"--release: {text!r} is no version") from err
    return tuple(found)
