"""What compiled files hold, wherever they are: files, folders, wheels, wheels on a server."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.binary.compiled import PROBE, read_compiled
from envguard.binary.folders import as_text, find_compiled, is_text
from envguard.binary.source import FileSource, UnreadableError
from envguard.binary.wheel import read_wheel
from envguard.errors import InputError
from envguard.facts.binary import CompiledFile
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.sentences import say
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_ZIP = b"PK"
_ASKED_FOR = frozenset({GapReason.NOT_ASKED})


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found in the subjects of one ``inspect``.

    Args:
        files: Sorted within each subject. Paths are relative to the subject; of several
            subjects each is put before them.
        notes: What does not belong to a single file.
    """

    files: tuple[CompiledFile, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether everything that was asked for could be read."""
        return all(gap.reason in _ASKED_FOR for file in self.files for gap in file.gaps)


def inspect_subjects(subjects: Sequence[str], *, offline: bool = False) -> Inspection:
    """Inspect files, folders, wheels and URLs of wheels.

    Args:
        subjects: At least one.
        offline: Refuse URLs.

    Raises:
        InputError: A path does not exist.
        NetworkError: A URL cannot be read in parts.
    """
    parts = [_inspect(subject, offline=offline) for subject in subjects]
    if len(parts) == 1:
        return parts[0]
    files = (
        replace(file, path=file.path if file.path == subject else f"{subject}/{file.path}")
        for subject, part in zip(subjects, parts, strict=True)
        for file in part.files
    )
    notes = (
        say("{subject}: {note}", subject=subject, note=note)
        for subject, part in zip(subjects, parts, strict=True)
        for note in part.notes
    )
    return Inspection(tuple(files), tuple(notes))


def _inspect(subject: str, *, offline: bool) -> Inspection:
    if subject.startswith(("https://", "http://")):
        return _inspect_url(subject, offline=offline)
    if not is_text(subject):
        raise InputError(f"{as_text(subject)}: its name is not text")
    if not os.path.lexists(subject):
        raise InputError(f"{subject}: does not exist")
    if os.path.isdir(subject):  # noqa: PTH112 - a text, kept as given
        return Inspection(tuple(_folder_files(subject)))
    return Inspection(tuple(_file_or_wheel(subject)))


def _inspect_url(url: str, *, offline: bool) -> Inspection:
    if offline:
        raise InputError(f"{url}: --offline forbids reading it")
    from envguard.binary.remote import read_remote_wheel

    found = read_remote_wheel(url)
    return Inspection(found.files, found.notes)


def _folder_files(folder: str) -> Iterator[CompiledFile]:
    """The compiled files below a folder, and those of the wheels directly in it."""
    gaps: list[Gap] = []
    files = find_compiled(folder, gaps, with_foreign=True, follows_links=False)
    found = sorted(files, key=lambda file: file.name)
    for file in found:
        yield _read_file(file.path, file.name)
    for wheel in _wheels(folder):
        held = _file_or_wheel(os.path.join(folder, wheel))  # noqa: PTH118 - a text, kept as given
        yield from (replace(file, path=f"{wheel}/{file.path}") for file in held)
    for gap in gaps:
        yield CompiledFile(folder, gaps=(gap,))


def _wheels(folder: str) -> Iterable[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(".whl"))  # noqa: PTH208 - likewise
    except OSError:
        return ()


def _file_or_wheel(path: str) -> Iterator[CompiledFile]:
    try:
        with FileSource(path) as source:
            is_wheel = source.read_upto(0, 2) == _ZIP or path.endswith(".whl")
        if is_wheel:
            yield from read_wheel(path)
            return
    except UnreadableError as err:
        yield CompiledFile(path, gaps=(Gap("file", err.reason, PROBE, err.message),))
        return
    yield _read_file(path, path)


def _read_file(path: str, name: str) -> CompiledFile:
    try:
        with FileSource(path) as source:
            return read_compiled(source, name)
    except UnreadableError as err:
        return CompiledFile(name, gaps=(Gap("file", err.reason, PROBE, err.message),))
