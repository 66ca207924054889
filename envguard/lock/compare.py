"""How two locks differ in what they install."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """How two locks differ in what they install, one line each; nothing when they do not.

    Remarks, reasons and the version of the matrix do not count, and neither does the host that
    an unchanged file is taken from.
    """
    heads = (_head(key, before, after) for key in ("environments", "requires-python"))
    groups = (_head(key, before, after) for key in ("dependency-groups", "default-groups"))
    old, new = _packages(before), _packages(after)
    lines = [line for line in (*heads, *groups) if line]
    for key in sorted(old.keys() | new.keys()):
        lines.extend(_compare(key, old.get(key, []), new.get(key, [])))
    return tuple(lines)


def _head(key: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    old, new = before.get(key), after.get(key)
    return "" if old == new else f"{key}: {old} -> {new}"


def _packages(document: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for package in document.get("packages", []):
        found.setdefault(canonicalize_name(package["name"]), []).append(package)
    return found


def _compare(name: str, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Iterator[str]:
    before, after = (sorted(map(_essence, packages)) for packages in (old, new))
    if before == after:
        return
    for gone in (item for item in before if item not in after):
        yield f"- {name} {' '.join(filter(None, gone[:3]))}"
    for come in (item for item in after if item not in before):
        yield f"+ {name} {' '.join(filter(None, come[:3]))}"
        same = [item for item in before if item[:3] == come[:3]]
        if same:
            yield f"  the files of {name} {come[0]} are others, or have other hashes"


def _essence(package: Mapping[str, Any]) -> tuple[str, str, str, tuple[str, ...]]:
    """Version, index, marker, and the files with their hashes."""
    files = package.get("wheels") or [package.get("sdist") or package.get("archive") or {}]
    named = sorted(f"{file.get('name')} {sorted(file.get('hashes', {}).items())}" for file in files)
    index = package.get("index", "")
    return (
        str(package.get("version", "")),
        f"from {index}" if index else "",
        f"where {package['marker']}" if package.get("marker") else "",
        tuple(named),
    )
