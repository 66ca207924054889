"""Compares the rows about packages with the real registry and prints what drifted.

Usage: ``python scripts/verify_packages.py [NAME ...] [--newest N | --every] [--index-url URL]``

Only wheels are looked at: a source archive would have to be run to say what it requires.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from envguard.errors import NetworkError, ToolError
from envguard.fetch.registry import Registry
from envguard.matrix.drift import compare_release, missing_releases
from envguard.matrix.loader import Matrix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.matrix.package_rows import PackageRelease
    from envguard.matrix.packages import PackageTable

_NEWEST = 3


def verify_table(table: PackageTable, registry: Registry, newest: int | None) -> Iterator[str]:
    """One line for each drift or trouble.

    Args:
        table: The table.
        registry: What is asked.
        newest: How many of the newest releases to read; None for all.
    """
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


def main(arguments: list[str] | None = None) -> int:
    """Run the program; 0 no drift, 1 drift, 3 the registry could not be asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="packages; every table without one")
    parser.add_argument("--newest", type=int, default=_NEWEST, help="releases of each package")
    parser.add_argument("--every", action="store_true", help="every release that has a row")
    parser.add_argument("--index-url", default="", help="registry; else what pip is configured for")
    parser.add_argument("--matrix", type=Path, help="folder of the tables")
    options = parser.parse_args(arguments)
    matrix = Matrix.load(options.matrix)
    drifted = False
    for name in options.names or sorted(matrix.package_names):
        table = matrix.packages(name)
        if table is None:
            parser.error(f"{name!r} has no table")
        try:
            newest = None if options.every else options.newest
            for line in verify_table(table, Registry(options.index_url), newest):
                drifted = True
                print(line, flush=True)
        except ToolError as err:
            print(f"{err.message}", file=sys.stderr)
            return 3
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main())
