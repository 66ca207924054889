"""Knows how tables are kept: TOML where people edit them, decoded (JSON) where they are only read.

A wheel and a fetched data release hold decoded tables; a checkout and a folder that a person
names hold TOML. Where a folder has both forms of a table, its TOML counts: nothing that somebody
edits is ever passed over for an older copy.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from envguard.errors import InputError, MatrixError
from envguard.files import take_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

SOURCE = ".toml"
_MOST_BYTES = 64 * 1024 * 1024  # of a table
_DECODED = ".json"
_FOLDERS = ("", "causes/", "packages/")
_COPIES = "__pycache__"


def read_table(folder: Traversable, name: str, *, keeps_copy: bool = False) -> Mapping[str, object]:
    """Decode a table.

    Args:
        folder: Where the tables lie.
        name: Name of the table's source, e.g. ``packages/xformers.toml``.
        keeps_copy: Keep a decoded copy beside the source, as Python does with modules, and read
            it as long as the source is the same: reading TOML takes a hundred times longer.

    Raises:
        MatrixError: The table is missing, unreadable or malformed.
    """
    try:
        source = _read(folder, name)
    except OSError as err:
        packed = _read_packed(folder, name)
        if packed is None:
            raise MatrixError(f"{name}: cannot be read: {err.strerror or err}") from err
        return packed
    if keeps_copy and isinstance(folder, Path):
        return _read_with_copy(folder, name, source)
    return decode(source, name)


def decode(source: bytes, name: str) -> Mapping[str, object]:
    """Decode the TOML of a table.

    Raises:
        MatrixError: It is not UTF-8 or not TOML; the message begins with the name.
    """
    import tomllib  # costs 5 ms of start-up that packed tables need not pay

    try:
        return tomllib.loads(source.decode("utf-8"))
    except UnicodeDecodeError as err:
        raise MatrixError(f"{name}: is not UTF-8 text: {err.reason}") from err
    except ValueError as err:  # TOMLDecodeError, or a number beyond Python's digit limit
        raise MatrixError(f"{name}: is not valid TOML: {err}") from err
    except RecursionError as err:
        raise MatrixError(f"{name}: is nested too deeply") from err


def table_names(folder: Traversable, under: str = "") -> Iterator[str]:
    """Names of the tables' sources in a folder, or in one below it, without their ending.

    Args:
        folder: Where the tables lie.
        under: ``causes`` or ``packages``; empty for the tables of the folder itself.
    """
    place = folder / under if under else folder
    names = {item.name for item in place.iterdir()} if place.is_dir() else set()
    yield from sorted({name[:-5] for name in names if name.endswith((SOURCE, _DECODED))})


def has_tables(folder: Traversable) -> bool:
    """Whether tables lie in a folder, in any form: their manifest does."""
    return any((folder / f"manifest{ending}").is_file() for ending in (SOURCE, _DECODED))


def sources(folder: Path) -> tuple[Path, ...]:
    """The files of a folder that people edit, in the order of their names.

    Args:
        folder: Where the tables lie.
    """
    return tuple(path for under in _FOLDERS for path in sorted(folder.glob(f"{under}*{SOURCE}")))


def packed_name(name: str) -> str:
    """The name under which the decoded form of a table is kept; other names stay."""
    return f"{name[: -len(SOURCE)]}{_DECODED}" if name.endswith(SOURCE) else name


def pack(folder: Path) -> None:
    """Put the decoded form of every table in the place of its source.

    Args:
        folder: Where the tables lie; a copy of them, not the one that people edit.

    Raises:
        MatrixError: A table is no TOML, or holds what has no decoded form.
        OSError: A file cannot be written.
    """
    for path in sources(folder):
        name = path.relative_to(folder).as_posix()
        text = _encode(decode(path.read_bytes(), name), name)
        path.with_suffix(_DECODED).write_text(text, encoding="utf-8")
        path.unlink()


def _encode(data: Mapping[str, object], name: str) -> str:
    try:
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    except TypeError as err:  # a date or a time, which JSON lacks
        raise MatrixError(f"{name}: {err}") from err


def _read(folder: Traversable, name: str) -> bytes:
    try:
        with (folder / name).open("rb") as file:
            return take_bounded(file, _MOST_BYTES, where=name)
    except InputError as err:
        raise MatrixError(err.message) from err


def _read_packed(folder: Traversable, name: str) -> Mapping[str, object] | None:
    """A table in its decoded form; None where there is none."""
    packed = packed_name(name)
    try:
        text = _read(folder, packed)
    except OSError:  # the caller says what is missing: the table
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise MatrixError(f"{packed}: is not valid JSON: {err}") from err
    if not isinstance(data, dict):
        raise MatrixError(f"{packed}: expected a table")
    return data


def _read_with_copy(folder: Path, name: str, source: bytes) -> Mapping[str, object]:
    from hashlib import sha256

    digest = sha256(source).hexdigest()[:32]
    stem = name.removesuffix(SOURCE).replace("/", "+")
    copy = folder / _COPIES / f"{stem}.{digest}{_DECODED}"
    try:
        found = json.loads(copy.read_bytes())
    except (OSError, ValueError):  # none was kept, or it is damaged: the source says the same
        found = None
    if isinstance(found, dict):
        return found
    data = decode(source, name)
    _keep_copy(copy, _encode(data, name))
    return data


def _keep_copy(copy: Path, text: str) -> None:
    """Keep a decoded copy; those of earlier texts of the table go."""
    fresh = copy.with_name(f".{copy.name}.{os.getpid()}")
    stem = copy.name.split(".")[0]
    try:
        copy.parent.mkdir(exist_ok=True)
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(copy)
        for old in copy.parent.glob(f"{stem}.*{_DECODED}"):
            if old != copy:
                old.unlink(missing_ok=True)
    except OSError:  # a folder that is only read, a full disk: the next start decodes again
        with suppress(OSError):
            fresh.unlink()
