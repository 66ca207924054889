"""Reads requirements files: comments, continuations, nested files and constraints."""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from envguard.errors import InputError
from envguard.files import read_utf8, reason_of
from envguard.lock.request import parse_requirement
from envguard.redaction import clean_text
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_MAX_BYTES = 4 * 1024 * 1024
_MAX_DEPTH = 20
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_OPTION = re.compile(r"(--[a-z-]+|-[a-zA-Z])\s*=?\s*(.*)", re.DOTALL)
_HASH = re.compile(r"\s--hash\b")
_FILE_OPTIONS = {"-r": "-r", "--requirement": "-r", "-c": "-c", "--constraint": "-c"}
_INDEX_OPTIONS = frozenset({"-i", "--index-url", "--extra-index-url", "-f", "--find-links"})


@dataclass(frozen=True, slots=True)
class FileContents:
    """What requirements files say.

    Args:
        requirements: In the order read.
        constraints: Likewise.
        notes: What was left out and why.
    """

    requirements: tuple[Requirement, ...] = ()
    constraints: tuple[Requirement, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Gathering:
    requirements: list[Requirement] = field(default_factory=list)
    constraints: list[Requirement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def load_requirement_files(paths: tuple[Path, ...]) -> FileContents:
    """Read requirements files and all that they include.

    Args:
        paths: The files, in order.

    Raises:
        InputError: A file cannot be read, includes itself, or holds something that a lock of
            published packages cannot: editable installs, addresses, hashes, other options.
            The message names file and line.
    """
    found = _Gathering()
    for path in paths:
        _read_file(path, found, chain=(), is_constraint=False)
    return FileContents(tuple(found.requirements), tuple(found.constraints), tuple(found.notes))


def _read_file(
    path: Path, found: _Gathering, *, chain: tuple[Path, ...], is_constraint: bool
) -> None:
    resolved = _resolved(path)
    if resolved in chain or len(chain) >= _MAX_DEPTH:
        raise InputError(f"{path}: includes itself, through {chain[-1]}")
    for number, line in logical_lines(read_utf8(path, _MAX_BYTES)):
        where = f"{path}:{number}"
        if line.startswith("-"):
            _read_option(line, where, path, found, (*chain, resolved), is_constraint=is_constraint)
            continue
        if _HASH.search(line):
            raise InputError(
                f"{where}: hashes in a request are not used",
                hint="leave them out: the lock holds the hashes of what it pins",
            )
        target = found.constraints if is_constraint else found.requirements
        target.append(parse_requirement(line, where))


def _resolved(path: Path) -> Path:
    """The file behind links.

    Raises:
        InputError: The links form a circle, or the name can be none.
    """
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as err:  # RuntimeError: a circle, before 3.13
        raise InputError(f"{path}: cannot be read: {reason_of(err)}") from err


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Split a requirements file into lines that say something.

    Args:
        text: The whole file.

    Yields:
        Number of the first physical line, and the text with continuations joined and without
        comments; nothing for blank lines.
    """
    joined, first = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        first = first or number
        if line.endswith("\\") and not line.lstrip().startswith("#"):
            joined += line[:-1]
            continue
        said = _COMMENT.sub("", joined + line).strip()
        if said:
            yield first, said
        joined, first = "", 0
    if said := _COMMENT.sub("", joined).strip():
        yield first, said


def _read_option(
    line: str,
    where: str,
    path: Path,
    found: _Gathering,
    chain: tuple[Path, ...],
    *,
    is_constraint: bool,
) -> None:
    match = _OPTION.match(line)
    option, value = (match[1], match[2].strip()) if match else (line, "")
    if option in _FILE_OPTIONS:
        included = _included_file(value, where, path)
        nested = is_constraint or _FILE_OPTIONS[option] == "-c"
        _read_file(included, found, chain=chain, is_constraint=nested)
    elif option in {"-e", "--editable"}:
        raise InputError(
            f"{where}: editable install {clean_text(value)!r} cannot be locked",
            hint="name the package and its version: envguard lock pins published packages",
        )
    elif option in _INDEX_OPTIONS:
        found.notes.append(_index_note(option, value, where))
    else:
        raise InputError(f"{where}: option {option} is not understood")


def _included_file(value: str, where: str, path: Path) -> Path:
    if not value:
        raise InputError(f"{where}: names no file")
    if "://" in value:
        raise InputError(f"{where}: {clean_text(value)!r} is an address, expected a file")
    return path.parent / value


def _index_note(option: str, value: str, where: str) -> str:
    """The PyTorch index is chosen here anyway; any other index is a decision to be repeated.

    Raises:
        InputError: It is another index.
    """
    if "//download.pytorch.org/" in value:
        return f"{where}: {option} is left out, the PyTorch index is chosen per machine"
    raise InputError(
        f"{where}: {option} {clean_text(value)} is not taken from a file",
        hint="state it as --index-url or --torch-index, or in uv's own configuration",
    )
