"""Releases as a registry publishes them, asked through pip and uv; rows held against them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name
from packaging.version import Version

from envguard.errors import NetworkError, ToolError
from envguard.facts.published import Published
from envguard.matrix.drift import compare_release, missing_releases
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date, datetime

    from envguard.matrix.packages import PackageRelease, PackageTable


# Wheels are looked at for Linux x86_64, whatever this machine is.
_PLATFORMS = (
    "linux_x86_64",
    "manylinux1_x86_64",
    "manylinux2010_x86_64",
    "manylinux2014_x86_64",
    *(f"manylinux_2_{glibc}_x86_64" for glibc in (12, 17, 24, 27, 28, 31, 34, 35)),
)
_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Registry:
    """A package registry, asked through pip and uv.

    Args:
        index_url: Its address; empty for the one that pip and uv are configured to use.
    """

    index_url: str = ""

    def versions(self, name: str) -> tuple[Version, ...]:
        """Every version that the registry lists for a package.

        Raises:
            NetworkError: The registry did not answer, or does not know the package.
            ToolError: pip is missing.
        """
        # As text: pip 23.2, which a fresh environment of Python 3.11 brings, knows no JSON here.
        return parse_pip_versions(self._pip("index", "versions", name, "--pre"), name)

    def release(self, name: str, version: Version, python: str) -> Published:
        """One release.

        Args:
            name: Normalised name.
            version: The release.
            python: A Python that it has a wheel for: ``3.12``.

        Raises:
            NetworkError: The registry did not answer, or has no such wheel.
            ToolError: pip or uv is missing.
        """
        return self._with_files(self.metadata(name, version, python), python)

    def metadata(self, name: str, version: Version, python: str) -> Published:
        """What the metadata of one wheel say; the wheel itself is not downloaded.

        Raises:
            NetworkError: The registry did not answer, or has no such wheel.
            ToolError: pip is missing.
        """
        platforms = [word for name in _PLATFORMS for word in ("--platform", name)]
        arguments = ("--dry-run", "--no-deps", "--ignore-installed", "--only-binary", ":all:")
        # pip 23.2 asks for a target even where it installs nothing.
        with tempfile.TemporaryDirectory() as target:
            text = self._pip(
                "install",
                "--quiet",
                *arguments,
                "--use-feature=fast-deps",  # reads the metadata out of the wheel by ranges
                *platforms,
                *("--python-version", python, "--implementation", "cp"),
                *("--target", target, "--report", "-"),
                f"{name}=={version}",
            )
        return parse_pip_report(_decode(text, name), name)

    def addresses(self, name: str, version: Version, python: str) -> tuple[str, ...]:
        """Where the wheels of a release lie: URLs, or paths for an index of files.

        Args:
            name: Normalised name.
            version: The release.
            python: Wheels for this Python and newer ones are listed: ``3.12``.

        Raises:
            NetworkError: The registry did not answer, or has no such wheel.
            ToolError: uv is missing.
        """
        return parse_pylock_addresses(self._lock(name, version, python), name)

    def _with_files(self, published: Published, python: str) -> Published:
        lock = self._lock(published.name, published.version, python)
        return parse_pylock_files(lock, published)

    def _lock(self, name: str, version: Version, python: str) -> dict[str, Any]:
        from uv import find_uv_bin  # a program in a wheel

        index = ("--default-index", self.index_url) if self.index_url else ()
        arguments = ("pip", "compile", "--no-deps", "--universal", "--format", "pylock.toml")
        text = _run(
            (find_uv_bin(), *arguments, "--python-version", python, "-q", *index, "-"),
            f"{name}=={version}\n",
        )
        return tomllib.loads(text)

    def _pip(self, command: str, *arguments: str) -> str:
        index = ("--index-url", self.index_url) if self.index_url else ()
        common = ("--no-input", "--disable-pip-version-check", "--retries", "1")
        argv = (sys.executable, "-m", "pip", command, *common, *index, *arguments)
        return _run(argv, "")


def _run(argv: tuple[str, ...], text: str) -> str:
    """The program's answer.

    Raises:
        NetworkError: It failed; its last line says why.
        ToolError: It is missing, or did not answer in time.
    """
    # A person's constraints are about what they install, not about what there is; uv would
    # download a whole Python to ask about one that is not here, and does without just as well.
    environ = {
        **os.environ,
        "PIP_CONSTRAINT": os.devnull,
        "UV_CONSTRAINT": "",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    try:
        done = subprocess.run(
            argv,
            input=text,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            env=environ,
        )
    except subprocess.TimeoutExpired as err:  # its text holds all arguments, an address among them
        raise ToolError(f"{argv[0]}: gave no answer within {_TIMEOUT_S} s") from err
    except OSError as err:
        raise ToolError(f"{argv[0]}: {err}") from err
    if done.returncode == 0:
        return done.stdout
    last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    if "No module named pip" in last:
        raise ToolError("pip is not installed beside envguard", hint="uv pip install pip")
    raise NetworkError(f"{' '.join(argv[1:4])} failed: {last.strip()}")


def _decode(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as err:
        raise NetworkError(f"pip's answer on {name} is not JSON: {err.msg.lower()}") from err


def parse_pip_versions(text: str, name: str) -> tuple[Version, ...]:
    """Read what ``pip index versions`` prints.

    Args:
        text: Its output.
        name: Of the package that was asked for.

    Raises:
        NetworkError: No line lists versions.

    Source: pip's ``src/pip/_internal/commands/index.py``; 23.2 and 26.3 print the same words.
    """
    for line in text.splitlines():
        word, _, listed = line.partition(":")
        if word == "Available versions":
            found = map(_version, listed.replace(",", " ").split())
            return tuple(version for version in found if version is not None)
    raise NetworkError(f"pip's answer on the versions of {name} has an unknown form")


def parse_pip_report(report: Any, name: str) -> Published:
    """Read the only entry of pip's installation report.

    Args:
        report: The decoded report.
        name: Of the package that was asked for.

    Raises:
        NetworkError: It holds something else.

    Source: pip's documentation, "Installation Report", version 1.
    """
    try:
        (entry,) = report["install"]
        metadata = entry["metadata"]
        return Published(
            name=canonicalize_name(name),
            version=Version(metadata["version"]),
            requires_python=metadata.get("requires_python", ""),
            requires=tuple(metadata.get("requires_dist", ())),
            # pip 23.2 says nothing about it.
            is_yanked=bool(entry["is_yanked"]) if "is_yanked" in entry else None,
        )
    except (KeyError, TypeError, ValueError) as err:
        raise NetworkError(f"pip's report on {name} has an unknown form: {err}") from err


def parse_pylock_files(document: Any, published: Published) -> Published:
    """Add the files that a lockfile lists for a release.

    Args:
        document: A decoded PEP 751 lockfile that holds this one package.
        published: The release.

    Raises:
        NetworkError: It holds something else.
    """
    try:
        (package,) = document["packages"]
        wheels = package.get("wheels", [])
        files = [*wheels, *([package["sdist"]] if "sdist" in package else [])]
        names = tuple(sorted(_file_name(wheel) for wheel in wheels))
        uploads = [_day(file["upload-time"]) for file in files if "upload-time" in file]
    except (KeyError, TypeError, ValueError) as err:
        raise NetworkError(f"the lock of {published.name} has an unknown form: {err}") from err
    return replace(published, wheels=names, released=min(uploads, default=""))


def parse_pylock_addresses(document: Any, name: str) -> tuple[str, ...]:
    """Read where the wheels lie that a lockfile lists for a release.

    Args:
        document: A decoded PEP 751 lockfile that holds this one package.
        name: Of the package that was asked for.

    Raises:
        NetworkError: It holds something else.
    """
    try:
        (package,) = document["packages"]
        return tuple(str(w["url"] if "url" in w else w["path"]) for w in package.get("wheels", []))
    except (KeyError, TypeError, ValueError) as err:
        raise NetworkError(f"the lock of {name} has an unknown form: {err}") from err


def _file_name(wheel: Any) -> str:
    return str(wheel["name"] if "name" in wheel else wheel["url"].rpartition("/")[2])


def _day(moment: datetime | date | str) -> str:
    return str(moment)[:10]


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except ValueError:  # InvalidVersion, or more digits than Python reads
        return None


# Each asks through programs that wait for the registry half of their time.
_SIDE_BY_SIDE = min(8, 2 * (os.cpu_count() or 1))


def verify_tables(
    tables: Iterable[PackageTable], registry: Registry, newest: int | None
) -> Iterator[str]:
    """One line for each drift or trouble of some tables, in their order; asked side by side.

    Args:
        tables: The tables.
        registry: What is asked.
        newest: How many of the newest releases of each to read; None for all.

    Raises:
        ToolError: pip or uv is missing.
    """
    pool = ThreadPoolExecutor(_SIDE_BY_SIDE)
    try:
        asked = [pool.submit(lambda t: tuple(verify_table(t, registry, newest)), t) for t in tables]
        for lines in asked:
            yield from lines.result()
    finally:
        pool.shutdown(cancel_futures=True)


def verify_table(table: PackageTable, registry: Registry, newest: int | None) -> Iterator[str]:
    """One line for each drift or trouble.

    Only wheels are looked at: a source archive would have to be run to say what it requires.

    Args:
        table: The table.
        registry: What is asked.
        newest: How many of the newest releases to read; None for all.

    Raises:
        ToolError: pip or uv is missing.
    """
    if table.is_unlisted:
        return
    try:
        yield from map(str, missing_releases(table, registry.versions(table.name)))
    except NetworkError as err:
        yield f"{table.document.name}: not read: {err.message}"
        return
    releases = () if table.is_source_only else table.releases
    for release in releases[-newest:] if newest else releases:
        try:
            published = registry.release(table.name, release.version, python_for(release))
        except NetworkError as err:
            yield f"{table.document.name}: {release.version}: not read: {err.message}"
            continue
        yield from map(str, compare_release(table, release, published))


def python_for(release: PackageRelease) -> str:
    """The oldest Python that a release has a wheel for, as its row says; 3.12 without a word."""
    minors = [
        int(tag.removeprefix("cp3").removesuffix("-abi3"))
        for tag in release.pythons
        if tag.startswith("cp3") and not tag.endswith("t")
    ]
    if minors:
        return f"3.{min(minors)}"
    bound = release.python
    if bound is None:
        return "3.12"
    admitted = (f"3.{minor}" for minor in range(7, 20))
    return next((python for python in admitted if bound.contains(f"{python}.20")), "3.12")
