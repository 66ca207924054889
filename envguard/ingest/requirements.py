"""Requirements files: their lines, options and nested files, and what pins they hold."""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.environment import Manager, label_of_url, label_of_version
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.sentences import say
from envguard.facts.versions import refuse_long_numbers
from envguard.ingest.lock_entry import Entry, Locked, Wheel, holds, wheels_of
from envguard.ingest.pip_list import normalise_name
from envguard.redaction import clean_addresses, clean_text
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from packaging.specifiers import SpecifierSet

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
    """

    text: str
    where: str
    line: int | None
    option: str = ""
    index: str | None = None
    is_constraint: bool = False


@dataclass(frozen=True, slots=True)
class RequirementLine:
    """One requirement and where it comes from."""

    requirement: Requirement | None
    entry: Entry
    marker: str = ""


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
    egg = value.partition("#egg=")[2].partition("&")[0].partition("[")[0]
    plain = egg or value.partition(";")[0].strip().rstrip("/").rpartition("/")[2]
    if not value:
        raise InputError(f"{where}: names nothing to install")
    entry = Entry(
        name=normalise_name(plain.strip(".") or "local-project"),
        version=None,
        line=number,
        has_source=True,
        is_editable=True,
    )
    return RequirementLine(None, entry)


def parse_line(line: str, where: str, number: int | None) -> RequirementLine:
    """Read one requirement with its options, or the bare address of a wheel.

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
    if wheel := _bare_wheel(text.strip(), number):
        return wheel
    try:
        requirement = Requirement(refuse_long_numbers(text.strip()))
    except (ValueError, RecursionError) as err:
        reason = str(err).splitlines()[0].rstrip(":. ").lower()
        shown = clean_text(text.strip())[:120]
        raise InputError(f"{where}: {shown!r} is not a requirement: {reason}") from err
    url = clean_addresses(requirement.url) if requirement.url else None
    wheels = wheels_of([url]) if url else ()
    entry = Entry(
        name=normalise_name(requirement.name),
        version=_wheel_version(wheels) if url else exact_version(requirement.specifier),
        line=number,
        wheels=wheels,
        has_source=not wheels,
        url=url,
        note=str(requirement.marker) if requirement.marker else "",
    )
    return RequirementLine(requirement, entry, entry.note)


def _bare_wheel(text: str, number: int | None) -> RequirementLine | None:
    """A line that is nothing but the path or address of a wheel."""
    address, _, marker = text.partition(" ; ")
    wheels = wheels_of([address]) if " @ " not in address and "==" not in address else ()
    if not wheels or wheels[0].filename.count("-") < 4:
        return None
    name = normalise_name(wheels[0].filename.split("-")[0])
    url = clean_addresses(address)
    entry = Entry(name, _wheel_version(wheels), number, wheels, url=url)
    return RequirementLine(None, entry, marker.strip())


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
class _Indexes:
    """Where pip would look; options count for the whole run, wherever they stand."""

    index: str | None = None
    more: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Gathering:
    lines: list[RequirementLine] = field(default_factory=list)
    constraints: dict[str, Version] = field(default_factory=dict)
    indexes: _Indexes = field(default_factory=_Indexes)
    gaps: list[Gap] = field(default_factory=list)


def parse_requirements(text: str, name: str, read: Read | None = None) -> Locked:
    """Read a requirements file.

    A requirement that is no exact pin states no version. pip treats all indexes alike: with
    an extra index, a torch without a label may come from either, and its build is not told.

    Args:
        text: The whole file.
        name: Of the file, for messages.
        read: Gives nested files; None leaves them out, with a gap.

    Raises:
        InputError: A line is no requirement, or a nested file cannot be read; the message
            names file and line.
    """
    found = _Gathering()
    for said in read_statements(text, name, read):
        (_take_option if said.option else _take_requirement)(said, found)
    lines = [_with_constraint(line, found.constraints) for line in found.lines]
    entries = tuple(_with_index(line.entry, found.indexes) for line in lines)
    markers = [line.marker for line in lines]

    def select(environment: Mapping[str, str], choice: str) -> frozenset[int]:
        return frozenset(i for i, marker in enumerate(markers) if holds(marker, environment))

    return Locked(
        manager=Manager.PIP,
        entries=entries,
        select=select,
        gaps=(*found.gaps, *(_open_gap(line) for line in lines if _is_open(line))),
        is_open=True,
    )


def _is_open(line: RequirementLine) -> bool:
    return line.entry.version is None and line.entry.url is None and not line.entry.is_editable


def _open_gap(line: RequirementLine) -> Gap:
    fact = f"environment.distributions[{line.entry.name}].version"
    place = say("line {line}: ", line=line.entry.line) if line.entry.line else ""
    detail = say("{place}{requirement} is no exact pin", place=place, requirement=line.requirement)
    return Gap(fact, GapReason.ABSENT, SOURCE, detail)


def _take_requirement(said: Statement, found: _Gathering) -> None:
    parsed = parse_line(said.text, said.where, said.line)
    if said.is_constraint:
        if parsed.entry.version is not None:
            found.constraints.setdefault(parsed.entry.name, parsed.entry.version)
        return
    entry = replace(parsed.entry, index_url=said.index or parsed.entry.index_url)
    found.lines.append(replace(parsed, entry=entry))


def _take_option(said: Statement, found: _Gathering) -> None:
    option, value, where = said.option, said.text, said.where
    if option in _FILES:
        detail = say("{where}: {value} is not read", where=where, value=value[:200])
        found.gaps.append(Gap("environment.distributions", GapReason.NOT_ASKED, SOURCE, detail))
    elif option in _INDEXES:
        found.indexes.index = clean_address(value, where)
    elif option in _MORE_INDEXES:
        found.indexes.more.append(clean_address(value, where))
    elif option in {"-e", "--editable"}:
        found.lines.append(parse_editable(value, where, said.line))
    elif option not in _PASSED_OVER:
        raise InputError(f"{where}: option {option[:60]} is not understood")


def _with_constraint(line: RequirementLine, constraints: Mapping[str, Version]) -> RequirementLine:
    version = constraints.get(line.entry.name)
    if version is None or line.entry.version is not None or line.entry.url is not None:
        return line
    return replace(line, entry=replace(line.entry, version=version))


def _with_index(entry: Entry, indexes: _Indexes) -> Entry:
    """Where pip takes it from, as far as the options decide it."""
    if entry.url is not None or entry.index_url is not None:
        return entry
    labelled = [url for url in indexes.more if label_of_url(url).accelerator is not None]
    if indexes.index and label_of_url(indexes.index).accelerator is not None and indexes.more:
        labelled.insert(0, indexes.index)
    if not indexes.more:
        return replace(entry, index_url=indexes.index)
    if label_of_version(entry.version).accelerator is not None or entry.name != "torch":
        return replace(entry, index_url=labelled[0] if labelled and entry.name == "torch" else None)
    places = labelled or indexes.more
    pin = f"{entry.name}=={entry.version}" if entry.version else entry.name
    trouble = (
        f"{pin} may come from {indexes.index or 'PyPI'} or from {', '.join(places)}: pip ranks "
        "indexes equally; a pin with its local label, such as +cu128, decides it"
    )
    return replace(entry, index_url=places[0], trouble=trouble)
