"""``poetry.lock``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.facts.environment import Manager
from envguard.ingest.lock_entry import Entry, Locked, Select, holds, parse_marker, wheels_of
from envguard.ingest.lock_toml import Table, heading_lines, parse_toml
from envguard.ingest.pip_list import normalise_name

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOCAL = frozenset({"directory", "file", "git"})


def parse_poetry_lock(text: str, name: str) -> Locked:
    """Read a ``poetry.lock`` of format 1 or 2.

    Packages that stand in no extra are the default selection. Which groups are optional is
    in the project's own file; all are taken here.

    Args:
        text: The whole file.
        name: Of the file, for messages.

    Raises:
        InputError: Not TOML, or not the shape of a ``poetry.lock``; the message names the place.
    """
    document = Table(parse_toml(text, name), name)
    metadata = document.table("metadata")
    packages = document.tables("package", heading_lines(text, "package"))
    old_files = metadata.table("files")  # before format 2, files of all packages stood there
    extras = {normalise_name(extra): _members(document, extra) for extra in _extras(document)}
    return Locked(
        manager=Manager.POETRY,
        entries=tuple(_entry(package, old_files) for package in packages),
        select=_selector(packages, extras),
        choices=tuple(f"extra {extra}" for extra in sorted(extras)),
        requires_python=_specifier(metadata.text("python-versions")),
    )


def _specifier(text: str) -> str:
    """Poetry's own ``^3.9`` as a lower bound; a specifier stays."""
    return ">=" + text[1:] if text.startswith("^") and "," not in text and "|" not in text else text


def _extras(document: Table) -> tuple[str, ...]:
    return tuple(document.table("extras").data)


def _members(document: Table, extra: str) -> frozenset[str]:
    """Names in ``torch (>=2)`` style lists of an extra."""
    words = document.table("extras").texts(extra)
    return frozenset(normalise_name(word.split()[0]) for word in words if word.split())


def _entry(package: Table, old_files: Table) -> Entry:
    source = package.table("source")
    kind, address = source.text("type"), source.text("url")
    plain = package.required("name")
    files = package.tables("files") or old_files.tables(plain)
    names = [file.text("file") for file in files]
    if package.version() is None:
        raise package.error("version is missing")
    return Entry(
        name=normalise_name(plain),
        version=package.version(),
        line=package.line,
        wheels=wheels_of(names) or wheels_of([address]),
        has_source=kind in _LOCAL or any(not name.endswith(".whl") for name in names),
        index_url=address if kind == "legacy" else None,
        url=address if kind in {"url", "git"} else None,
        is_editable=package.data.get("develop") is True,
    )


def _markers(package: Table) -> tuple[str, ...]:
    """One marker, or one for each group (format 2.1); empty holds everywhere."""
    value = package.data.get("markers", "")
    if isinstance(value, dict):
        table = package.table("markers")
        found = tuple(table.text(group) for group in value)
    else:
        found = (package.text("markers"),)
    for marker in found:
        try:
            if marker:
                parse_marker(marker)
        except ValueError as err:
            raise package.error(f"markers {marker[:100]!r}: {err}") from err
    return found or ("",)


def _selector(packages: tuple[Table, ...], extras: Mapping[str, frozenset[str]]) -> Select:
    markers = [_markers(package) for package in packages]
    names = [normalise_name(package.required("name")) for package in packages]
    optional = [package.data.get("optional") is True for package in packages]
    in_extra = frozenset().union(*extras.values())

    def is_taken(position: int, environment: Mapping[str, str], extra: str) -> bool:
        if optional[position] and not extra:
            return False
        members = extras.get(extra, frozenset())
        if optional[position] and names[position] in in_extra and names[position] not in members:
            return False
        return any(holds(marker, environment, extra=extra) for marker in markers[position])

    def select(environment: Mapping[str, str], choice: str) -> frozenset[int]:
        extra = choice.removeprefix("extra ")
        positions = range(len(packages))
        return frozenset(i for i in positions if is_taken(i, environment, extra))

    return select
