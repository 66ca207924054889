"""Requirements files: their lines, options and nested files, and what pins they hold."""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.environment import Manager
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.sentences import say
from envguard.facts.versions import refuse_long_numbers
from envguard.ingest.lock_entry import Entry, Locked, Wheel, holds, wheels_of
from envguard.ingest.pip_list import normalise_name
from envguard.redaction import clean_addresses, clean_text
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Read = Callable[[str, str], tuple[str, str]]


_MAX_LINES = 200_000
_MAX_JOINED = 200_000
_COMMENT = re.compile(r"(?:^|[ \t])#.*")
_INDEX_NOTE = re.compile(r"[ \t]*# from (https?://\S+)")
_OPTION = re.compile(r"(--?[A-Za-z][A-Za-z-]{0,40})(?:[ \t]*=[ \t]*|[ \t]+|$)?(.*)", re.DOTALL)
_MAX_DEPTH = 20
_MAX_FILES = 100
_VARIABLE = re.compile(r"\$\{[A-Z0-9_]{1,80}\}")
_FILES = {"-r": "-r", "--requirement": "-r", "-c": "-c", "--constraint": "-c"}
_OWN_OPTION = re.compile(r"[ \t](--[a-z][a-z-]{0,40})(?:[ \t=]|$)")
# What a requirement cannot begin with, and paths and archives do.
_ADDRESS = re.compile(
    r"(?:(?:git|hg|svn|bzr)\+|[a-z][a-z0-9+.-]{1,20}://|file:|\.|/|~|[A-Za-z]:[\\/])"
    r"|[^\s;=<>!~@]{1,500}\.(?:whl|tar\.gz|tar\.bz2|tgz|zip)(?:$|[\s#])"
    r"|[^\s;=<>!~@]{1,200}[\\/][^\s;=<>]{0,500}(?:$|\s)",
    re.IGNORECASE,
)
_ARCHIVE = re.compile(r"(?:\.git|\.tar\.gz|\.tar\.bz2|\.tgz|\.zip|\.whl)$", re.IGNORECASE)
_MARKER = re.compile(r"\s;|;\s")
_MAX_SHOWN = 1000
_OF_A_REQUIREMENT = frozenset({"--hash", "--config-settings", "--global-option", "--no-binary"})


@dataclass(frozen=True, slots=True)
class Statement:
    """One line of a requirements file, or of a file that it includes.

    Args:
        text: A requirement, or what stands behind an option.
        where: ``file:line``, for messages.
        line: Number in the subject's own file; None in a nested one.
        option: As it is written, ``-i`` or ``--pre``; empty for a requirement. ``-r`` and ``-c``
            in every spelling, where the file that they name was not read.
        index: Index that a following ``# from URL`` comment names.
        is_constraint: It stands in a constraints file: it asks for nothing.
        choice: The extra or group that it belongs to (``extra train``, ``group dev``); empty
            for what is installed in any case.
        unless: Markers of which none may hold: other statements take their place there.
    """

    text: str
    where: str
    line: int | None
    option: str = ""
    index: str | None = None
    is_constraint: bool = False
    choice: str = ""
    unless: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequirementLine:
    """One requirement and where it comes from.

    Args:
        requirement: As packaging reads it; None for a bare address or path.
        entry: What it comes down to.
        marker: Where it holds; empty everywhere.
        choice: As in :class:`Statement`, and ``unless`` likewise.
        not_judged: The words of a source tree or archive, which no table describes.
    """

    requirement: Requirement | None
    entry: Entry
    marker: str = ""
    choice: str = ""
    not_judged: str = ""
    unless: tuple[str, ...] = ()


def logical_lines(text: str, name: str) -> Iterator[tuple[int, str, str | None]]:
    """Split a file into lines that say something.

    Yields:
        Number of the first physical line; the text with continuations joined and comments
        gone; the index that a following ``# from URL`` comment names.

    Raises:
        InputError: More lines than a requirements file has.
    """
    pending: tuple[int, str] | None = None
    joined, first = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        if number > _MAX_LINES:
            raise InputError(f"{name}: more than {_MAX_LINES} lines")
        first = first or number
        is_comment = line.lstrip().startswith("#")
        if line.endswith("\\") and not is_comment and len(joined) < _MAX_JOINED:
            joined = _join(joined, line[:-1])
            continue
        if pending and is_comment and (note := _INDEX_NOTE.match(line)):
            yield *pending, note[1]
            pending = None
        said = _COMMENT.sub("", _join(joined, line)).strip()
        if said:
            if pending:
                yield *pending, None
            pending = (first, said)
        joined, first = "", 0
    if said := _COMMENT.sub("", joined).strip():
        if pending:
            yield *pending, None
        pending = (first, said)
    if pending:
        yield *pending, None


def _join(text: str, line: str) -> str:
    """As pip joins them; an option on a line of its own stays one, as uv has it."""
    return f"{text} {line}" if text and line.startswith("--") else text + line


def split_option(line: str) -> tuple[str, str]:
    """Option and value of a line that starts with ``-``: ``-r x``, ``-rx``, ``--index-url=x``."""
    match = _OPTION.match(line)
    if match is None:
        return line, ""
    option, value = match[1], match[2].strip()
    if not option.startswith("--") and len(option) > 2:  # -rother.txt
        rest = line[2:].strip()
        option, value = option[:2], rest
    return option, value


def read_statements(text: str, name: str, read: Read | None = None) -> Iterator[Statement]:
    """What a requirements file says, with nested files and constraints in their place.

    Args:
        text: The whole file.
        name: Of the file, for messages.
        read: Gives nested files; None leaves them out.

    Yields:
        One line after the other. A nested file that is an address, has a variable in its name or
        that nothing reads is left to the caller.

    Raises:
        InputError: A nested file has no name, cannot be read or includes itself, or there are too
            many; the message names file and line.
    """
    yield from _Nesting(read).statements(text, (name,), is_constraint=False)


@dataclass(slots=True)
class _Nesting:
    """Follows ``-r`` and ``-c``."""

    read: Read | None
    files: int = 0

    def statements(
        self, text: str, chain: tuple[str, ...], *, is_constraint: bool
    ) -> Iterator[Statement]:
        self.files += 1
        for number, said, index in logical_lines(text, chain[-1]):
            where, line = f"{chain[-1]}:{number}", number if len(chain) == 1 else None
            if not said.startswith("-"):
                yield Statement(said, where, line, "", index, is_constraint)
                continue
            option, value = split_option(said)
            if option not in _FILES:
                yield Statement(value, where, line, option, None, is_constraint)
                continue
            path, kind = value.strip("'\""), _FILES[option]
            is_bound = is_constraint or kind == "-c"
            if found := self._included(path, where, chain):
                yield from self.statements(found[1], (*chain, found[0]), is_constraint=is_bound)
            else:
                yield Statement(path, where, line, kind, None, is_bound)

    def _included(self, path: str, where: str, chain: tuple[str, ...]) -> tuple[str, str] | None:
        if not path:
            raise InputError(f"{where}: names no file")
        if self.read is None or "://" in path or _VARIABLE.search(path):
            return None
        if len(chain) >= _MAX_DEPTH or self.files >= _MAX_FILES:
            raise InputError(f"{where}: files are nested too deeply, or too many")
        name, text = self.read(path, chain[-1])
        if name in chain:
            raise InputError(f"{where}: {path} includes itself")
        return name, text


def clean_address(value: str, where: str) -> str:
    """An address without quotes and secrets.

    Raises:
        InputError: There is none.
    """
    if not value:
        raise InputError(f"{where}: names no address")
    return clean_addresses(value.strip("'\""))


def parse_editable(value: str, where: str, number: int | None) -> RequirementLine:
    """Read what stands behind ``-e``: a path, or an address with ``#egg=name``.

    Args:
        value: The text.
        where: ``file:line``, for messages.
        number: Line in the subject's own file; None for a nested one.

    Raises:
        InputError: Nothing stands there.
    """
    if not value:
        raise InputError(f"{where}: names nothing to install")
    plain, _, marker = _split_marker(value)
    return _source_tree(plain, f"-e {plain}", marker, number, is_editable=True)


def _source_tree(
    address: str, words: str, marker: str, number: int | None, *, is_editable: bool = False
) -> RequirementLine:
    """A path, archive or repository: what it holds stands in no table."""
    entry = Entry(
        name=normalise_name(_name_in(address)),
        version=None,
        line=number,
        has_source=True,
        is_editable=is_editable,
    )
    return RequirementLine(None, entry, marker, not_judged=clean_text(words)[:300])


def _name_in(address: str) -> str:
    """The name that an address or path tells: ``#egg=x``, else its last part."""
    plain, _, fragment = address.strip("'\"").partition("#")
    egg = fragment.partition("egg=")[2].partition("&")[0].partition("[")[0]
    path = plain.partition("?")[0].partition("[")[0].rstrip("/")
    last = path.rpartition("://")[2].rpartition("/")[2].partition("@")[0]
    return egg or _ARCHIVE.sub("", last).strip(".") or "local-project"


def _split_marker(text: str) -> tuple[str, str, str]:
    """An address and its marker: a space before the semicolon or, as pip has it, behind it."""
    match = _MARKER.search(text)
    return (text[: match.start()], ";", text[match.end() :].strip()) if match else (text, "", "")


def parse_line(line: str, where: str, number: int | None) -> RequirementLine:
    """Read one requirement with its options, or the bare address or path of what to install.

    Args:
        line: The joined line.
        where: ``file:line``, for messages.
        number: Line in the subject's own file; None for a nested one.

    Raises:
        InputError: It is no requirement.
    """
    text = line
    if own := _OWN_OPTION.search(text):
        if own[1] not in _OF_A_REQUIREMENT:
            raise InputError(f"{where}: option {own[1]} cannot stand behind a requirement")
        text = text[: own.start()]
    if bare := _bare_address(text.strip(), number):
        return bare
    try:
        requirement = Requirement(refuse_long_numbers(text.strip()))
    except (ValueError, RecursionError) as err:
        reason = str(err).splitlines()[0].rstrip(":. ").lower()
        shown = clean_text(text.strip())[:_MAX_SHOWN]
        raise InputError(f"{where}: {shown!r} is not a requirement: {reason}") from err
    return _named(requirement, clean_text(text.strip()), number)


def _named(requirement: Requirement, text: str, number: int | None) -> RequirementLine:
    url = clean_addresses(requirement.url) if requirement.url else None
    wheels = wheels_of([url]) if url else ()
    version = _wheel_version(wheels) if url else exact_version(requirement.specifier)
    marker = str(requirement.marker) if requirement.marker else ""
    entry = Entry(
        name=normalise_name(requirement.name),
        version=version,
        line=number,
        wheels=wheels,
        has_source=not wheels,
        url=url,
        note=marker,
        wish=None if version or url else requirement.specifier,
    )
    is_source = url is not None and version is None
    return RequirementLine(requirement, entry, marker, not_judged=text[:300] if is_source else "")


def _bare_address(text: str, number: int | None) -> RequirementLine | None:
    """A line that is nothing but the address or path of a wheel, an archive or a source tree."""
    address, _, marker = _split_marker(text)
    if " @ " in address or not _ADDRESS.match(address):
        return None
    wheels = wheels_of([address])
    if not wheels or wheels[0].filename.count("-") < 4:
        return _source_tree(address, address, marker, number)
    name = normalise_name(wheels[0].filename.split("-")[0])
    url = clean_addresses(address)
    return RequirementLine(
        None, Entry(name, _wheel_version(wheels), number, wheels, url=url), marker
    )


def _wheel_version(wheels: tuple[Wheel, ...]) -> Version | None:
    words = wheels[0].filename.split("-") if wheels else []
    try:
        return Version(words[1]) if len(words) >= 5 else None
    except ValueError:
        return None


def exact_version(specifier: SpecifierSet) -> Version | None:
    """The version of ``==X``; None for anything open."""
    exact = [s.version for s in specifier if s.operator in {"==", "==="}]
    try:
        return Version(exact[0]) if len(exact) == 1 else None
    except ValueError:  # ==2.7.*
        return None


SOURCE = "requirements"
_INDEXES = {"-i": "index", "--index-url": "index", "--pypi-url": "index"}
_MORE_INDEXES = frozenset({"--extra-index-url", "-f", "--find-links"})
_PASSED_OVER = frozenset(
    {
        "--no-binary",
        "--only-binary",
        "--prefer-binary",
        "--pre",
        "--require-hashes",
        "--trusted-host",
        "--use-feature",
        "--no-index",
    }
)


@dataclass(slots=True)
class _Gathering:
    """What the statements of a file come down to.

    Where pip would look, options decide for the whole run, wherever they stand.
    """

    lines: list[RequirementLine] = field(default_factory=list)
    constraints: dict[str, SpecifierSet] = field(default_factory=dict)
    index: str | None = None
    more: list[str] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)


def parse_requirements(text: str, name: str, read: Read | None = None) -> Locked:
    """Read a requirements file.

    Args:
        text: The whole file.
        name: Of the file, for messages.
        read: Gives nested files; None leaves them out, with a gap.

    Raises:
        InputError: A line is no requirement, or a nested file cannot be read; the message
            names file and line.
    """
    return locked_of(read_statements(text, name, read))


def locked_of(statements: Iterable[Statement], manager: Manager = Manager.PIP) -> Locked:
    """What statements ask for, as far as it can be judged.

    A requirement that is no exact pin states no version and is a wish. What comes from a source
    tree or archive is named as not judged.

    Args:
        statements: Of a requirements file, or of another file that says the same.
        manager: Whose file it is.

    Raises:
        InputError: A statement is no requirement; the message names file and line.
    """
    found = _Gathering()
    for said in statements:
        (_take_option if said.option else _take_requirement)(said, found)
    lines = [_with_constraint(line, found.constraints) for line in found.lines]
    choices = tuple(dict.fromkeys(line.choice for line in lines if line.choice))

    def select(environment: Mapping[str, str], choice: str) -> frozenset[int]:
        return frozenset(
            position
            for position, line in enumerate(lines)
            if line.choice in {"", choice}
            and holds(line.marker, environment)
            and not any(holds(marker, environment) for marker in line.unless)
        )

    return Locked(
        manager=manager,
        entries=tuple(_with_index(line.entry, found) for line in lines),
        select=select,
        choices=choices,
        gaps=(*found.gaps, *(gap for line in lines for gap in _line_gaps(line))),
        is_open=True,
        indexes=(found.index or "", *found.more) if found.index or found.more else (),
    )


def _line_gaps(line: RequirementLine) -> Iterator[Gap]:
    entry = line.entry
    place = say("line {line}: ", line=entry.line) if entry.line else ""
    if line.not_judged:
        fact = f"environment.distributions[{entry.name}]"
        detail = say("{place}{requirement}", place=place, requirement=line.not_judged)
        yield Gap(fact, GapReason.NOT_ASKED, SOURCE, detail)
    elif entry.wish is not None and not line.choice:
        fact = f"environment.distributions[{entry.name}].version"
        detail = say(
            "{place}{requirement} is no exact pin", place=place, requirement=line.requirement
        )
        yield Gap(fact, GapReason.ABSENT, SOURCE, detail)


def _take_requirement(said: Statement, found: _Gathering) -> None:
    parsed = parse_line(said.text, said.where, said.line)
    if said.is_constraint:
        if parsed.requirement is not None and parsed.entry.url is None:
            bound = found.constraints.get(parsed.entry.name, SpecifierSet())
            found.constraints[parsed.entry.name] = bound & parsed.requirement.specifier
        return
    entry = replace(parsed.entry, index_url=said.index or parsed.entry.index_url)
    found.lines.append(replace(parsed, entry=entry, choice=said.choice, unless=said.unless))


def _take_option(said: Statement, found: _Gathering) -> None:
    option, value, where = said.option, said.text, said.where
    if option in _FILES:
        detail = say("{where}: {value} is not read", where=where, value=value[:200])
        found.gaps.append(Gap("environment.distributions", GapReason.NOT_ASKED, SOURCE, detail))
    elif option in _INDEXES:
        found.index = clean_address(value, where)
    elif option in _MORE_INDEXES:
        found.more.append(clean_address(value, where))
    elif option in {"-e", "--editable"}:
        line = parse_editable(value, where, said.line)
        found.lines.append(replace(line, choice=said.choice))
    elif option not in _PASSED_OVER:
        raise InputError(f"{where}: option {option[:60]} is not understood")


def _with_constraint(
    line: RequirementLine, constraints: Mapping[str, SpecifierSet]
) -> RequirementLine:
    """A constraint narrows what is asked for, down to a pin."""
    entry, bound = line.entry, constraints.get(line.entry.name)
    if bound is None or entry.wish is None:
        return line
    both = entry.wish & bound
    version = exact_version(both)
    return replace(line, entry=replace(entry, version=version, wish=None if version else both))


def _with_index(entry: Entry, found: _Gathering) -> Entry:
    """The only index, where there is no other: of several, the tables tell which serves."""
    if entry.url is not None or entry.index_url is not None or found.more:
        return entry
    return replace(entry, index_url=found.index)
