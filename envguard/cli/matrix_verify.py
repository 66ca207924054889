"""``envguard matrix verify``: prove what the tables promise, against registry and wheels too."""

from __future__ import annotations

import re
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from envguard.binary.torch_wheel import interpreter_of, read_torch_wheel
from envguard.binary.wheel import MEGABYTE
from envguard.binary.wheel_files import open_wheel
from envguard.cli.out import write_page
from envguard.cli.tables import load_matrix
from envguard.errors import ExitCode, InputError, MatrixError, NetworkError, ToolError
from envguard.facts.machine import OperatingSystem, Platform
from envguard.facts.published import TorchWheel
from envguard.files import is_folder
from envguard.matrix.drift import compare_wheel
from envguard.matrix.verify import verify as verify_matrix
from envguard.values import dataclass
from envguard.web.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packaging.tags import Tag

    from envguard.cli.matrix_options import NetworkOptions, WheelOptions
    from envguard.cli.out import PageOptions
    from envguard.matrix.drift import Comparison
    from envguard.matrix.loader import Matrix
    from envguard.render.page import Style


@dataclass(slots=True)
class WheelReport:
    """What wheels said, as lines for people.

    Args:
        agreed: Rows and their fields that agree.
        drift: Fields that do not.
        unread: What could not be compared.
        is_complete: Everything that was asked for was read.
        wheels: The wheels.
    """

    agreed: list[str] = field(default_factory=list)
    drift: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    is_complete: bool = True
    wheels: list[TorchWheel] = field(default_factory=list)

    def add(self, comparisons: Iterable[Comparison]) -> None:
        """Take up what was compared; the fields of a row that agree become one line."""
        agreed: dict[str, list[str]] = {}
        for comparison in comparisons:
            if comparison.agrees:
                row = f"{comparison.table}: {comparison.row}"
                agreed.setdefault(row, []).append(comparison.field)
            elif comparison.drifts:
                self.drift.append(str(comparison))
            else:
                self.unread.append(str(comparison))
                self.is_complete &= not comparison.is_asked_for
        self.agreed += [f"{row}: {', '.join(fields)}" for row, fields in agreed.items()]

    def miss(self, what: str, why: str) -> None:
        """Take up a wheel that could not be read."""
        self.unread.append(f"{what}: {why}")
        self.is_complete = False


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
    from envguard.matrix.pattern_cost import try_tables

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
    from envguard.cli.out import waiting

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

    from envguard.web.registry import Registry, verify_tables

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
