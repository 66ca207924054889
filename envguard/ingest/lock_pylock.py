"""``pylock.toml`` (PEP 751), envguard's own and other tools'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import DocumentError, InputError
from envguard.facts.codec import from_dict
from envguard.facts.environment import Manager
from envguard.facts.lock_record import LockRecord
from envguard.ingest.lock_entry import (
    Entry,
    Locked,
    Select,
    Wheel,
    holds,
    wheels_of,
)
from envguard.ingest.lock_toml import Table, heading_lines, parse_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.pylock import Package, Pylock

_SCHEMA_VERSION = 1


def parse_pylock(text: str, name: str) -> Locked:
    """Read a ``pylock.toml``.

    Args:
        text: The whole file.
        name: Of the file, for messages.

    Raises:
        InputError: Not TOML, or not what PEP 751 describes; the message names the place.

    Source: PEP 751, as ``packaging.pylock`` validates it.
    """
    from packaging.pylock import Pylock, PylockUnsupportedVersionError, PylockValidationError

    document = parse_toml(text, name)
    try:
        lock = Pylock.from_dict(document)
    except (PylockValidationError, PylockUnsupportedVersionError) as err:
        words = str(err)
        raise InputError(f"{name}: not a valid pylock: {words[:1].lower()}{words[1:]}") from err
    lines = heading_lines(text, "packages")
    known = lines if len(lines) == len(lock.packages) else ()
    entries = tuple(
        _entry(package, known[i] if known else None) for i, package in enumerate(lock.packages)
    )
    return Locked(
        manager=_manager(lock.created_by),
        entries=entries,
        select=_selector(lock),
        choices=_choices(lock),
        requires_python=str(lock.requires_python or ""),
        record=_record(Table(document, f"{name}: pylock"), name),
        markers=tuple(str(marker) for marker in lock.environments or ()),
    )


def _manager(created_by: str) -> Manager:
    names = {"uv": Manager.UV, "pdm": Manager.PDM, "poetry": Manager.POETRY}
    return names.get(created_by.lower(), Manager.PIP)


def _entry(package: Package, line: int | None) -> Entry:
    address = next((d.url for d in (package.archive, package.vcs) if d and d.url), None)
    archive = wheels_of([address]) if address else ()
    return Entry(
        name=package.name,
        version=package.version,
        line=line,
        wheels=tuple(Wheel(w.filename, w.url) for w in package.wheels or ()) or archive,
        has_source=package.sdist is not None or package.is_direct,
        index_url=package.index,
        url=address,
        is_editable=bool(package.directory and package.directory.editable),
        note=str(package.marker) if package.marker else "",
    )


def _choices(lock: Pylock) -> tuple[str, ...]:
    default = set(lock.default_groups or ())
    groups = [f"group {group}" for group in lock.dependency_groups or () if group not in default]
    return (*(f"extra {extra}" for extra in lock.extras or ()), *groups)


def _selector(lock: Pylock) -> Select:
    default = frozenset(lock.default_groups or ())
    markers = [str(package.marker) if package.marker else "" for package in lock.packages]

    def select(environment: Mapping[str, str], choice: str) -> frozenset[int]:
        kind, _, name = choice.partition(" ")
        extra = name if kind == "extra" else ""
        groups = default | {name} if kind == "group" else default
        return frozenset(
            position
            for position, marker in enumerate(markers)
            if holds(marker, environment, extra=extra, groups=groups)
        )

    return select


def _record(document: Table, name: str) -> LockRecord | None:
    """What envguard wrote, where it made the lock."""
    table = document.table("tool").data.get("envguard")
    if table is None:
        return None
    place = f"{name}: tool.envguard"
    if not isinstance(table, dict):
        raise DocumentError(f"{place}: expected a table")
    schema = table.get("schema_version")
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        raise DocumentError(f"{place}.schema_version {schema!r} is not a positive integer")
    if schema > _SCHEMA_VERSION:
        raise DocumentError(
            f"{place}.schema_version {schema} is newer than {_SCHEMA_VERSION}, the newest that "
            "this envguard reads",
            hint="upgrade envguard",
        )
    return from_dict(LockRecord, table, place)
