"""The lines of requirements files: what stands on one, comments and continuations gone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.version import Version

from envguard.errors import InputError
from envguard.facts.versions import refuse_long_numbers
from envguard.ingest.lock_entry import Entry, Wheel, wheels_of
from envguard.ingest.pip_list import normalise_name
from envguard.redaction import clean_addresses, clean_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.specifiers import SpecifierSet

_MAX_LINES = 200_000
_MAX_JOINED = 200_000
_COMMENT = re.compile(r"(?:^|[ \t])#.*")
_INDEX_NOTE = re.compile(r"[ \t]*# from (https?://\S+)")
_OPTION = re.compile(r"(--?[A-Za-z][A-Za-z-]{0,40})(?:[ \t]*=[ \t]*|[ \t]+|$)?(.*)", re.DOTALL)
_OWN_OPTION = re.compile(r"[ \t](--[a-z][a-z-]{0,40})(?:[ \t=]|$)")
_OF_A_REQUIREMENT = frozenset({"--hash", "--config-settings", "--global-option", "--no-binary"})


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
            joined += line[:-1] + " "
            continue
        if pending and is_comment and (note := _INDEX_NOTE.match(line)):
            yield *pending, note[1]
            pending = None
        said = _COMMENT.sub("", joined + line).strip()
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
