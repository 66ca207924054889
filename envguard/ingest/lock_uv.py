"""``uv.lock``: a graph of packages, walked from the project's own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from envguard.facts.environment import Manager
from envguard.ingest.lock_entry import (
    Entry,
    Locked,
    Select,
    check_counts,
    holds,
    parse_marker,
    wheels_of,
)
from envguard.ingest.lock_toml import Table, heading_lines, parse_toml
from envguard.ingest.pip_list import normalise_name
from envguard.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

_LOCAL = ("virtual", "editable", "directory")


@dataclass(frozen=True, slots=True)
class _Edge:
    """One dependency: where it leads, and when."""

    targets: tuple[int, ...]
    marker: str
    extras: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Node:
    """A package's outgoing edges: its own, and those of each extra and group."""

    always: tuple[_Edge, ...]
    extras: Mapping[str, tuple[_Edge, ...]]
    groups: Mapping[str, tuple[_Edge, ...]]
    markers: tuple[str, ...]


def parse_uv_lock(text: str, name: str) -> Locked:
    """Read a ``uv.lock``.

    What the project takes without extras and with its ``dev`` group (uv's default) is the
    default selection; every other extra and group is a choice.

    Args:
        text: The whole file.
        name: Of the file, for messages.

    Raises:
        InputError: Not TOML, or not the shape of a ``uv.lock``; the message names the place.
    """
    document = Table(parse_toml(text, name), name)
    version = document.data.get("version")
    if version != 1:
        raise document.error(f"lock version {version!r} is not understood, expected 1")
    packages = document.tables("package", heading_lines(text, "package"))
    entries = tuple(_entry(package) for package in packages)
    check_counts(entries, name)
    graph = _Graph(packages, entries, _manifest(document))
    return Locked(
        manager=Manager.UV_PROJECT,
        entries=entries,
        select=graph.selector(),
        choices=graph.choices(),
        requires_python=document.text("requires-python"),
        markers=_markers(document),
    )


def _markers(document: Table) -> tuple[str, ...]:
    """The environments that it was resolved for; without limits, its forks cover them all."""
    named = document.texts("supported-markers") or document.texts("resolution-markers")
    return tuple(_checked(marker, document) for marker in named)


def _entry(package: Table) -> Entry:
    source = package.table("source")
    urls = [_address(wheel) for wheel in package.tables("wheels")]
    direct = source.text("url")
    is_local = any(key in source.data for key in _LOCAL)
    return Entry(
        name=normalise_name(package.required("name")),
        version=package.version(),
        line=package.line,
        wheels=wheels_of(urls) or wheels_of([direct]),
        has_source="sdist" in package.data or is_local or "git" in source.data,
        index_url=source.text("registry") or None,
        url=direct or source.text("git") or None,
        is_editable="editable" in source.data,
    )


def _address(wheel: Table) -> str:
    return wheel.text("url") or wheel.text("path") or wheel.text("filename")


def _manifest(document: Table) -> tuple[Table, ...]:
    """The requirements of a locked script, which has no package of its own."""
    return document.table("manifest").tables("requirements")


class _Graph:
    """The packages and what leads from one to another."""

    def __init__(
        self, packages: tuple[Table, ...], entries: tuple[Entry, ...], manifest: tuple[Table, ...]
    ) -> None:
        self._entries = entries
        self._sources = [dict(package.table("source").data) for package in packages]
        self._by_name: dict[str, list[int]] = {}
        for position, entry in enumerate(entries):
            self._by_name.setdefault(entry.name, []).append(position)
        self._nodes = [self._node(package) for package in packages]
        self._roots = self._find_roots(packages)
        self._manifest = self._edges(manifest)

    def _node(self, package: Table) -> _Node:
        extras = package.table("optional-dependencies")
        groups = package.table("dev-dependencies")
        return _Node(
            always=self._edges(package.tables("dependencies")),
            extras={name: self._edges(extras.tables(name)) for name in extras.data},
            groups={name: self._edges(groups.tables(name)) for name in groups.data},
            markers=tuple(_checked(m, package) for m in package.texts("resolution-markers")),
        )

    def _edges(self, dependencies: Iterable[Table]) -> tuple[_Edge, ...]:
        return tuple(dict.fromkeys(self._edge(dependency) for dependency in dependencies))

    def _edge(self, dependency: Table) -> _Edge:
        """Version and source stand where the name alone is not enough."""
        name = normalise_name(dependency.required("name"))
        version = dependency.version()
        source = dependency.table("source").data
        targets = [
            position
            for position in self._by_name.get(name, [])
            if (version is None or self._entries[position].version == version)
            and (not source or self._sources[position] == source)
        ]
        marker = _checked(dependency.text("marker"), dependency)
        return _Edge(tuple(targets), marker, dependency.texts("extra"))

    def _find_roots(self, packages: tuple[Table, ...]) -> tuple[int, ...]:
        """The project at ``.``, else all local members, else everything."""
        local = [i for i, s in enumerate(self._sources) if any(key in s for key in _LOCAL)]
        here = [i for i in local if "." in self._sources[i].values()]
        return tuple(here or local)

    def choices(self) -> tuple[str, ...]:
        """Extras and groups of the roots that uv does not take by itself."""
        extras = {f"extra {e}" for root in self._roots for e in self._nodes[root].extras}
        groups = {f"group {g}" for root in self._roots for g in self._nodes[root].groups}
        return (*sorted(extras), *sorted(groups - {"group dev"}))

    def selector(self) -> Select:
        """The walk, remembered for each environment and choice."""

        @cache
        def walk(environment: tuple[tuple[str, str], ...], choice: str) -> frozenset[int]:
            return self._walk(dict(environment), choice)

        def select(environment: Mapping[str, str], choice: str) -> frozenset[int]:
            return walk(tuple(environment.items()), choice)

        return select

    def _walk(self, environment: Mapping[str, str], choice: str) -> frozenset[int]:
        if not self._roots and not self._manifest:
            found = range(len(self._entries))
            return frozenset(i for i in found if self._is_for(i, environment, ""))
        marker_extra = self._marker_extra(choice)
        seen: set[tuple[int, str]] = set()
        todo = [(root, "") for root in self._roots]
        todo += self._follow((*self._manifest, *self._chosen(choice)), environment, marker_extra)
        while todo:
            step = todo.pop()
            if step in seen:
                continue
            seen.add(step)
            position, extra = step
            node = self._nodes[position]
            edges = node.extras.get(extra, ()) if extra else node.always
            todo += self._follow(edges, environment, marker_extra)
        return frozenset(i for i, _ in seen if i not in self._roots)

    def _chosen(self, choice: str) -> Iterable[_Edge]:
        """What the roots take besides their own dependencies."""
        kind, _, name = choice.partition(" ")
        for root in self._roots:
            node = self._nodes[root]
            yield from node.groups.get("dev", ())
            if kind == "extra":
                yield from node.extras.get(name, ())
            elif kind == "group":
                yield from node.groups.get(name, ())

    def _marker_extra(self, choice: str) -> str:
        """How uv spells a chosen extra or group in the markers of conflicting sets."""
        if not choice or not self._roots:
            return ""
        kind, _, name = choice.partition(" ")
        project = self._entries[self._roots[0]].name
        return f"{kind}-{len(project)}-{project}-{name}"

    def _follow(
        self, edges: Iterable[_Edge], environment: Mapping[str, str], extra: str
    ) -> Iterable[tuple[int, str]]:
        for edge in edges:
            if not holds(edge.marker, environment, extra=extra):
                continue
            targets = edge.targets
            if len(targets) > 1:
                targets = tuple(i for i in targets if self._is_for(i, environment, extra))
            for position in targets:
                yield position, ""
                yield from ((position, name) for name in edge.extras)

    def _is_for(self, position: int, environment: Mapping[str, str], extra: str) -> bool:
        """Whether one of a package's resolution markers holds."""
        markers = self._nodes[position].markers
        return not markers or any(holds(m, environment, extra=extra) for m in markers)


def _checked(marker: str, table: Table) -> str:
    try:
        if marker:
            parse_marker(marker)
    except ValueError as err:
        raise table.error(f"marker {marker[:100]!r}: {err}") from err
    return marker
