"""``envguard matrix verify``: prove what the tables promise, and compare them with the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.cli.screen import write_page
from envguard.cli.tables import load_matrix
from envguard.errors import ExitCode, InputError, MatrixError
from envguard.matrix.invariants import verify as verify_tables

if TYPE_CHECKING:
    from envguard.cli.matrix import NetworkOptions
    from envguard.cli.screen import PageOptions
    from envguard.matrix.loader import Matrix
    from envguard.render.style import Style


def verify(name: str, network: NetworkOptions, page: PageOptions) -> int:
    """Check every invariant of the tables; with ``--packages`` ask the registry what drifted.

    Args:
        name: Only this package is asked for; empty for all.
        network: Whether and where the registry is asked.
        page: Which tables, and how the answer is written.

    Raises:
        InputError: The package has no table, or the network is forbidden.
    """
    if name and not network.packages:
        raise InputError(f"matrix verify {name}: a name goes with --packages")
    try:
        matrix = load_matrix(page.matrix)
    except MatrixError as err:
        return _no_manifest(err, page)
    problems = verify_tables(matrix)
    drifts = _drifts(matrix, name, network) if network.packages else None
    _write(matrix.manifest.data_version, problems, drifts, page)
    return ExitCode.DOES_NOT_FIT if problems or drifts else ExitCode.FITS


def _no_manifest(err: MatrixError, page: PageOptions) -> int:
    """Tables whose manifest cannot be read hold nothing that could be looked at."""
    _write("not known", (err.message,), None, page)
    return ExitCode.DOES_NOT_FIT


def _write(
    version: str,
    problems: tuple[str, ...],
    drifts: tuple[str, ...] | None,
    page: PageOptions,
) -> None:
    body = {"problems": list(problems), "drift": None if drifts is None else list(drifts)}

    def text(style: Style) -> str:
        lines = [f"broken: {line}" for line in problems]
        lines += [f"drift: {line}" for line in drifts or ()]
        asked = "" if drifts is None else " and agree with the registry"
        lines = lines or [f"the tables of {version} hold what they promise{asked}"]
        return "\n".join(lines) + "\n"

    write_page(page, version, command="matrix verify", body=body, text=text)


def _drifts(matrix: Matrix, name: str, network: NetworkOptions) -> tuple[str, ...]:
    """What the package registry says otherwise."""
    from packaging.utils import canonicalize_name

    from envguard.fetch.registry import Registry
    from envguard.fetch.tables import verify_table

    if network.offline:
        raise InputError("--packages asks the package registry, and --offline forbids it")
    names = [canonicalize_name(name)] if name else sorted(matrix.package_names)
    registry, found = Registry(network.index_url), list[str]()
    for package in names:
        table = matrix.packages(package)
        if table is None:
            raise InputError(f"matrix verify {name}: no such package has a table")
        found.extend(verify_table(table, registry, network.newest))
    return tuple(found)
