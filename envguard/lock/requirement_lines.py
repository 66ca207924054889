"""Requirements files as requests: what is locked, what is carried along, what options say."""

from __future__ import annotations

import codecs
import re
import tomllib
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from envguard.errors import InputError
from envguard.facts.sentences import say
from envguard.facts.versions import refuse_long_numbers
from envguard.files import is_file, is_folder, read_bounded, read_utf8
from envguard.lock.request import FurtherIndex, PassedLine, parse_requirement
from envguard.redaction import clean_addresses, clean_text
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from envguard.ingest.requirements import Statement

_MAX_BYTES = 4 * 1024 * 1024
_BOMS = (  # the longer ones first: that of UTF-32 begins as that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_OWN_OPTION = re.compile(r"\s--(?:hash|config-settings?|global-option)\b.*", re.DOTALL)
_TORCH_HOST = re.compile(r"//download(?:-r2)?\.pytorch\.org/")
_DIRECT = re.compile(
    r"(?<!\S)(?:(?P<name>[A-Za-z0-9][\w.-]{0,200})\s{0,8}(?:\[[^\]]{0,200}\]\s{0,8})?@\s{0,8})?"
    r"(?P<place>\S+)(?:\s{1,8};\s{0,8}(?P<marker>.+))?"
)
_EGG = re.compile(r"#(?:[^#]*&)?egg=([A-Za-z0-9][\w.-]*)")
_VCS = re.compile(r"(?:git|hg|svn|bzr)\+|.*\.git(?:@|#|/?$)")
_LINE = re.compile(r":\d+$")
_EXTRAS = re.compile(r"\[([\w,\s.-]*)\]$")
_NAME = re.compile(r"[A-Za-z0-9](?:[\w.-]{0,200}[A-Za-z0-9])?|:all:|:none:")
_ARCHIVES = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tgz")
_INDEX = frozenset({"-i", "--index-url", "--pypi-url"})
_MORE_INDEXES = frozenset({"--extra-index-url", "-f", "--find-links"})
_FOR_UV = frozenset({"--no-binary", "--only-binary"})
# They change how pip asks and installs, not what is chosen.
_WITHOUT_EFFECT = frozenset(
    {
        "--no-cache-dir",
        "--no-index",
        "--prefer-binary",
        "--progress-bar",
        "--require-hashes",
        "--trusted-host",
        "--use-feature",
        "--use-pep517",
        "--no-build-isolation",
    }
)


@dataclass(slots=True)
class FileContents:
    """What requirements files say.

    Args:
        requirements: In the order read.
        constraints: Likewise.
        notes: What was left out and why.
        passed: Lines that name an address, a path or an editable install.
        index: The default index that a file names; None for none.
        more_indexes: Further indexes.
        uv_options: What is said of wheels, sources and pre-releases, as uv's options.
        unless: Requirements that hold where none of some markers does.
        pythons: What files say of the Python: file and bound, as a specifier.
    """

    requirements: list[Requirement] = field(default_factory=list)
    constraints: list[Requirement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    passed: list[PassedLine] = field(default_factory=list)
    index: str | None = None
    more_indexes: list[FurtherIndex] = field(default_factory=list)
    uv_options: list[str] = field(default_factory=list)
    unless: list[tuple[Requirement, tuple[str, ...]]] = field(default_factory=list)
    pythons: list[tuple[str, SpecifierSet]] = field(default_factory=list)


def load_requirement_files(paths: Iterable[Path]) -> FileContents:
    """Read requirements files and all that they include, and other files that ask for packages.

    Of a project what is installed in any case; its extras and groups are left out, which a note
    says.

    Args:
        paths: The files, in order: requirements files, pyproject.toml, setup.cfg, pixi.toml,
            conda's environment.yml and explicit lists, Dockerfiles, shell scripts.

    Raises:
        InputError: A file cannot be read or includes itself, a line is no requirement, or an
            option is not known. The message names file and line.
    """
    from envguard.ingest.request_files import read_request_file  # most requests name no file

    found = FileContents()
    for path in paths:
        asked = read_request_file(read_marked(path), str(path), _read_beside)
        found.notes.extend(asked.notes)
        if asked.requires_python:
            found.pythons.append((str(path), _python_bound(asked.requires_python, path)))
        chosen = [said for said in asked.statements if not said.choice]
        found.notes.extend(_left_out(asked.statements, path))
        is_project = not path.name.endswith((".txt", ".in"))
        for said in chosen:
            if said.option:
                _take_option(said, found)
            else:
                _take_line(said, found)
                if said.index and is_project:
                    _take_index("--extra-index-url", said.index, said.where, found)
    found.notes[:] = dict.fromkeys(found.notes)
    return found


def _python_bound(text: str, path: Path) -> SpecifierSet:
    try:
        return SpecifierSet(refuse_long_numbers(text))
    except ValueError as err:
        raise InputError(f"{path}: requires-python {text[:100]!r} is no bound") from err


def _left_out(statements: Iterable[Statement], path: Path) -> Iterator[str]:
    """Which extras and groups of a project are not locked."""
    choices = dict.fromkeys(said.choice for said in statements if said.choice)
    if choices:
        yield say(
            "{file}: left out, because they are only installed when asked for: {choices}",
            file=path,
            choices=", ".join(choices),
        )


def read_marked(path: Path) -> str:
    """Read a text as pip does: its byte order mark says how it is written, else it is UTF-8.

    Raises:
        InputError: It cannot be read, is larger than 4 MiB, or is no such text.
    """
    raw = read_bounded(path, _MAX_BYTES)
    for mark, encoding in _BOMS:
        if raw.startswith(mark):
            try:
                return raw.decode(encoding)
            except UnicodeDecodeError as err:
                raise InputError(f"{path}: is not {encoding.upper()} text: {err.reason}") from err
    return read_utf8(path, _MAX_BYTES)


def _read_beside(path: str, including: str) -> tuple[str, str]:
    """A nested file, from where the one lies that names it."""
    place = Path(including).parent / path
    return str(place), read_marked(place)


def _take_line(said: Statement, found: FileContents) -> None:
    text = _OWN_OPTION.sub("", said.text).strip()
    if text != said.text.strip():
        found.notes.append(
            say("{where}: the options of {line} are not used", where=said.where, line=_head(text))
        )
    wanted = found.constraints if said.is_constraint else found.requirements
    if not _is_direct(text):
        requirement = parse_requirement(text, said.where)
        if said.unless:
            found.unless.append((requirement, said.unless))
        else:
            wanted.append(requirement)
    elif pinned := _torch_wheel(text):
        wanted.append(pinned)
    elif not said.is_constraint:
        _take_direct(text, said.where, found)


def _head(text: str) -> str:
    return clean_text(text)[:200]


def _is_direct(text: str) -> bool:
    """Whether a line names an address, a path or a file instead of a release."""
    head = text.partition(" ;")[0].strip()
    name, at, place = head.partition("@")
    if at and re.fullmatch(r"[A-Za-z0-9][\w.-]*\s*(?:\[[^\]]*\])?\s*", name) and place.strip():
        return True
    is_path = head.startswith((".", "/", "~", "file:")) or "\\" in head
    return "://" in head or is_path or head.endswith(_ARCHIVES)


def _torch_wheel(text: str) -> Requirement | None:
    """The pin that a wheel of the PyTorch index stands for: the lock finds the same address."""
    match = _DIRECT.fullmatch(text)
    if match is None or not _TORCH_HOST.search(match["place"]):
        return None
    filename = unquote(urlsplit(match["place"]).path.rpartition("/")[2])
    try:
        name, version, _, _ = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        return None
    marker = f"; {match['marker']}" if match["marker"] else ""
    return Requirement(f"{name}=={version}{marker}")


def _take_direct(text: str, where: str, found: FileContents, *, is_editable: bool = False) -> None:
    """Carry a line along; what a local project states that it needs is locked."""
    match = _DIRECT.fullmatch(text)
    if match is None:
        raise InputError(f"{where}: {_head(text)!r} is no address and no path")
    place, marker = match["place"], match["marker"] or ""
    egg = _EGG.search(place)
    name = match["name"] or (egg[1] if egg else "") or _name_in(place)
    kind = _kind(place)
    prefix = "-e " if is_editable else ""
    line = PassedLine(
        text=f"{prefix}{clean_addresses(text)}",
        where=where,
        name=canonicalize_name(name) if name else "",
        kind=kind,
        marker=marker,
    )
    found.passed.append(line)
    needs = list(_static_needs(place, where)) if kind == "directory" else []
    found.requirements.extend(needs)
    found.notes.append(_carried_note(line, needs))


def _carried_note(line: PassedLine, needs: list[Requirement]) -> str:
    where, shown = line.where, _head(line.text)
    if needs:
        return say(
            "{where}: {line} is carried along and not judged; the {count} requirements of its "
            "pyproject.toml are locked",
            where=where,
            line=shown,
            count=len(needs),
        )
    if line.kind == "directory":
        return say(
            "{where}: {line} is carried along and not judged; what it needs is not read: no "
            "pyproject.toml states it, and a setup.py is not run",
            where=where,
            line=shown,
        )
    return say(
        "{where}: {line} is carried along as it is written, not locked and not judged, nor is "
        "what it needs",
        where=where,
        line=shown,
    )


def _kind(place: str) -> str:
    if _VCS.match(place):
        return "vcs"
    plain = place.partition("#")[0]
    return "archive" if "://" in plain or plain.endswith(_ARCHIVES) else "directory"


def _name_in(place: str) -> str:
    """The name that a file or a repository tells; empty where it tells none."""
    path = urlsplit(place.partition("#")[0]).path if "://" in place else place.partition("#")[0]
    last = unquote(path.rstrip("/").rpartition("/")[2])
    if last.endswith(".whl"):
        return last.split("-")[0]
    word = last.partition("@")[0].removesuffix(".git")
    return word if _kind(place) == "vcs" and re.fullmatch(r"[A-Za-z0-9][\w.-]*", word) else ""


def _static_needs(place: str, where: str) -> Iterator[Requirement]:
    """What the pyproject.toml of a local folder states that it needs, with the extras asked for."""
    wanted = _EXTRAS.search(place)
    local = place.removeprefix("file://").removeprefix("file:")
    folder = Path(_LINE.sub("", where)).parent / _EXTRAS.sub("", local)
    path = folder / "pyproject.toml"
    if not is_folder(folder) or not is_file(path):
        return
    try:
        document = tomllib.loads(read_utf8(path, _MAX_BYTES))
    except (tomllib.TOMLDecodeError, RecursionError) as err:
        raise InputError(f"{path}: is no TOML: {err}") from err
    project = document.get("project")
    project = project if isinstance(project, dict) else {}
    optional = project.get("optional-dependencies")
    optional = optional if isinstance(optional, dict) else {}
    extras = [extra.strip() for extra in wanted[1].split(",")] if wanted else []
    for listed in (project.get("dependencies"), *(optional.get(extra) for extra in extras)):
        yield from _listed_needs(listed, path)


def _listed_needs(listed: Any, path: Path) -> Iterator[Requirement]:
    for text in listed if isinstance(listed, list) else ():
        if isinstance(text, str) and not _is_direct(text):
            yield parse_requirement(text, str(path))


def _take_option(said: Statement, found: FileContents) -> None:
    """Take what an option says.

    Raises:
        InputError: It names a file that is none, or is not known.
    """
    option, value, where = said.option, said.text.strip("'\""), said.where
    shown = clean_text(value)
    if option in {"-r", "-c"}:
        wrong = "is an address" if "://" in value else "has a variable in its name"
        raise InputError(
            f"{where}: {option} {shown!r} {wrong}, expected a file",
            hint="fetch it, and name the file",
        )
    if option in {"-e", "--editable"}:
        if not value:
            raise InputError(f"{where}: {option} names nothing to install")
        _take_direct(value, where, found, is_editable=True)
    elif option in _INDEX | _MORE_INDEXES:
        _take_index(option, value, where, found)
    elif option in _FOR_UV:
        names = [name.strip() for name in value.split(",")]
        for name in names:
            if not _NAME.fullmatch(name):
                raise InputError(f"{where}: {option}: {clean_text(name)!r} is no name of a package")
        found.uv_options.extend(f"{option}={name}" for name in names if name != ":none:")
    elif option == "--pre":
        found.uv_options.append("--prerelease=allow")
    elif option in _WITHOUT_EFFECT:
        found.notes.append(
            say("{where}: {option} changes nothing in a lock", where=where, option=option)
        )
    else:
        raise InputError(f"{where}: option {option} is not understood")


def _take_index(option: str, value: str, where: str, found: FileContents) -> None:
    from envguard.lock.package_index import check_address  # few files name an index

    if not value:
        raise InputError(f"{where}: {option} names no address")
    shown = clean_text(value)
    note: str
    if _TORCH_HOST.search(value):
        note = say(
            "{where}: {option} is left out, the PyTorch index is chosen per machine",
            where=where,
            option=option,
        )
    elif option not in _INDEX and "://" not in value:
        note = say(
            "{where}: {option} {place} is left out: a lock holds addresses that every machine "
            "can reach",
            where=where,
            option=option,
            place=shown,
        )
    else:
        check_address(f"{where}: {option}", value)
        if option in _INDEX:
            found.index = value
            note = say("{where}: packages come from {place}", where=where, place=shown)
        else:
            found.more_indexes.append(FurtherIndex(value, option in {"-f", "--find-links"}))
            note = say(
                "{where}: {place} is asked only for packages that are named and that the default "
                "index does not have",
                where=where,
                place=shown,
            )
    found.notes.append(note)
