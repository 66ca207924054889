"""``pdm.lock``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.facts.environment import Manager
from envguard.ingest.lock_entry import Entry, Locked, Select, holds, parse_marker, wheels_of
from envguard.ingest.lock_toml import Table, heading_lines, parse_toml
from envguard.ingest.pip_list import normalise_name

if TYPE_CHECKING:
    from collections.abc import Mapping


def parse_pdm_lock(text: str, name: str) -> Locked:
    """Read a ``pdm.lock`` of format 4.

    It rarely names indexes: labels of versions and of wheels are what tells a build. The group
    ``default`` and ``dev`` are the default selection, every other group is a choice.

    Args:
        text: The whole file.
        name: Of the file, for messages.

    Raises:
        InputError: Not TOML, or not the shape of a ``pdm.lock``; the message names the place.
    """
    document = Table(parse_toml(text, name), name)
    metadata = document.table("metadata")
    packages = document.tables("package", heading_lines(text, "package"))
    groups = [group for group in metadata.texts("groups") if group not in {"default", "dev"}]
    return Locked(
        manager=Manager.PDM,
        entries=tuple(_entry(package) for package in packages),
        select=_selector(packages),
        choices=tuple(f"group {group}" for group in groups),
        requires_python=_requires_python(metadata),
    )


def _requires_python(metadata: Table) -> str:
    """The bounds of the only target; several targets leave it open."""
    targets = metadata.tables("targets")
    return targets[0].text("requires_python") if len(targets) == 1 else ""


def _entry(package: Table) -> Entry:
    files = package.tables("files")
    names = [file.text("url") or file.text("file") for file in files]
    direct = package.text("url") or package.text("git")
    version = package.version()
    if version is None and not (direct or package.text("path")):
        raise package.error("version is missing")
    return Entry(
        name=normalise_name(package.required("name")),
        version=version,
        line=package.line,
        wheels=wheels_of(names) or wheels_of([direct]),
        has_source=bool(package.text("path") or package.text("git"))
        or any(not name.partition("#")[0].endswith(".whl") for name in names),
        index_url=package.text("index") or None,
        url=direct or None,
        is_editable=package.data.get("editable") is True,
    )


def _selector(packages: tuple[Table, ...]) -> Select:
    markers = []
    for package in packages:
        marker = package.text("marker")
        try:
            if marker:
                parse_marker(marker)
        except ValueError as err:
            raise package.error(f"marker {marker[:100]!r}: {err}") from err
        markers.append(marker)
    groups = [frozenset(package.texts("groups")) for package in packages]
    # an entry with extras repeats the one without, to carry further dependencies
    repeats = [bool(package.texts("extras")) for package in packages]
    plain = {p.text("name") for p, repeat in zip(packages, repeats, strict=True) if not repeat}

    def select(environment: Mapping[str, str], choice: str) -> frozenset[int]:
        taken = {"default", "dev", choice.removeprefix("group ")}
        return frozenset(
            i
            for i, package in enumerate(packages)
            if (not groups[i] or groups[i] & taken)
            and not (repeats[i] and package.text("name") in plain)
            and holds(markers[i], environment)
        )

    return select
