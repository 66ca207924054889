"""Compares a table's rows with the registry, release by release."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from envguard.errors import NetworkError
from envguard.matrix.drift import compare_release, missing_releases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from envguard.fetch.registry import Registry
    from envguard.matrix.package_rows import PackageRelease
    from envguard.matrix.packages import PackageTable


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
