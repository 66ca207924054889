"""``envguard matrix verify``: prove what the tables promise; compare them with the registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.cli.screen import write_page
from envguard.cli.tables import load_matrix
from envguard.cli.wheel_report import WheelReport
from envguard.errors import ExitCode, InputError, MatrixError
from envguard.matrix.invariants import verify as verify_matrix

if TYPE_CHECKING:
    from envguard.cli.matrix import NetworkOptions, WheelOptions
    from envguard.cli.screen import PageOptions
    from envguard.matrix.loader import Matrix
    from envguard.render.style import Style


def verify(name: str, network: NetworkOptions, wheels: WheelOptions, page: PageOptions) -> int:
    """Check every invariant of the tables; ask the registry and read wheels where told to.

    Args:
        name: Only this package is asked for; empty for all.
        network: Whether and where the registry is asked.
        wheels: Whether and which wheels of torch are read.
        page: Which tables, and how the answer is written.

    Raises:
        InputError: The package has no table, or the network is forbidden.
    """
    if name and not network.packages:
        raise InputError(f"matrix verify {name}: a name goes with --packages")
    if wheels != type(wheels)() and not wheels.binary:
        raise InputError("--release, --python-tag, --wheels and --largest go with --binary")
    try:
        matrix = load_matrix(page.matrix, is_tried=True)
    except MatrixError as err:
        return _no_manifest(err, page)
    found = _Found((*verify_matrix(matrix), *_hanging(matrix, page)))
    if network.packages:
        found.drifts = _drifts(matrix, name, network)
    if wheels.binary:
        found.report = _read(matrix, network, wheels, page)
    _write(matrix.manifest.data_version, found, page)
    return found.exit_code


def _hanging(matrix: Matrix, page: PageOptions) -> tuple[str, ...]:
    """The patterns of a user's tables that can be made to hang."""
    from envguard.matrix.pattern_trial import try_tables

    if page.matrix is None:
        return ()
    try:
        return try_tables(matrix)
    except MatrixError:
        return ()  # the invariants have said it


@dataclass(slots=True)
class _Found:
    """What was proven: broken promises, and what the registry and wheels say where asked."""

    problems: tuple[str, ...]
    drifts: tuple[str, ...] | None = None
    report: WheelReport | None = None

    @property
    def drift(self) -> list[str] | None:
        if self.drifts is None and self.report is None:
            return None
        return [*(self.drifts or ()), *(self.report.drift if self.report else ())]

    @property
    def exit_code(self) -> ExitCode:
        if self.problems or self.drift:
            return ExitCode.DOES_NOT_FIT
        is_complete = self.report is None or self.report.is_complete
        return ExitCode.FITS if is_complete else ExitCode.COULD_NOT_TELL

    def lines(self, version: str, *, with_agreed: bool) -> list[str]:
        lines = [f"broken: {line}" for line in self.problems]
        if self.report:
            lines += [f"agrees: {line}" for line in self.report.agreed if with_agreed]
            lines += [f"not read: {line}" for line in self.report.unread]
        lines += [f"drift: {line}" for line in self.drift or ()]
        if self.exit_code is ExitCode.FITS:
            lines.append(self._praise(version))
        return lines

    def _praise(self, version: str) -> str:
        asked = "" if self.drifts is None else " and agree with the registry"
        if self.report:
            count = len(self.report.wheels)
            asked += f" and agree with {count} wheel{'s' if count != 1 else ''} of torch"
        return f"the tables of {version} hold what they promise{asked}"


def _no_manifest(err: MatrixError, page: PageOptions) -> int:
    """Tables whose manifest cannot be read hold nothing that could be looked at."""
    found = _Found((err.message,))
    _write("not known", found, page)
    return found.exit_code


def _write(version: str, found: _Found, page: PageOptions) -> None:
    body: dict[str, object] = {"problems": list(found.problems), "drift": found.drift}
    if found.report:
        body |= {"agreed": found.report.agreed, "unread": found.report.unread}

    def text(style: Style) -> str:
        return "\n".join(found.lines(version, with_agreed=not style.is_quiet)) + "\n"

    write_page(page, version, command="matrix verify", body=body, text=text)


def _read(
    matrix: Matrix, network: NetworkOptions, wheels: WheelOptions, page: PageOptions
) -> WheelReport:
    """What real wheels say otherwise."""
    from envguard.cli.matrix_binary import (
        WheelRequest,
        largest_bytes,
        parse_releases,
        read_wheels,
    )
    from envguard.cli.progress import waiting

    if network.offline and wheels.wheels is None:
        raise InputError("--binary reads the registry's wheels, and --offline forbids it")
    request = WheelRequest(
        releases=parse_releases(wheels.release or ()),
        python_tag=wheels.python_tag,
        folder=wheels.wheels,
        index_url=network.index_url,
        offline=network.offline,
        largest_bytes=largest_bytes(wheels.largest),
    )
    with waiting(is_wanted=not page.quiet) as say:
        return read_wheels(matrix, request, say)


def _drifts(matrix: Matrix, name: str, network: NetworkOptions) -> tuple[str, ...]:
    """What the package registry says otherwise."""
    from packaging.utils import canonicalize_name

    from envguard.fetch.registry import Registry
    from envguard.fetch.tables import verify_tables

    if network.offline:
        raise InputError("--packages asks the package registry, and --offline forbids it")
    names = [canonicalize_name(name)] if name else sorted(matrix.package_names)
    tables = []
    for package in names:
        table = matrix.packages(package)
        if table is None:
            raise InputError(f"matrix verify {name}: no such package has a table")
        tables.append(table)
    return tuple(verify_tables(tables, Registry(network.index_url), network.newest))
