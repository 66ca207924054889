"""Known breaks that show only in what was resolved, and the bounds that cure them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from envguard.lock.avoid import is_grave, is_needed
from envguard.lock.bounds import Bounds, MatrixBound, bounds_for
from envguard.lock.situation import admits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packaging.specifiers import SpecifierSet

    from envguard.lock.pins import Pin
    from envguard.lock.request import LockRequest
    from envguard.lock.situation import Situation
    from envguard.matrix.breaks import Break
    from envguard.matrix.loader import Matrix

_NOT_PACKAGES = frozenset({"torch", "torch_cuda", "python", "cuda_toolkit"})
_ABSENCES = {"no-setuptools": ("setuptools",), "no-pkg-resources": ("setuptools", "packaging")}


def find_repairs(
    pins: Iterable[Pin],
    known: frozenset[str],
    situation: Situation,
    request: LockRequest,
    matrix: Matrix,
) -> Bounds:
    """What has to change in a resolution.

    Args:
        pins: The resolution.
        known: Names of the packages that were bounded before it.
        situation: What was settled before it.
        request: Its own bounds decide which of several cures is taken.
        matrix: The tables.

    Returns:
        Further bounds; none when the resolution stands.
    """
    versions = {str(pin.name): pin.version for pin in pins}
    fresh = bounds_for(versions.keys() - known, situation, request, matrix)
    found = [fresh] if fresh.against else []
    broken = [item for item in fresh.items if _is_broken(item, versions)]
    facts = {**versions, **situation.versions}
    found.extend(
        _cure(row, versions, request)
        for row in matrix.breaks.about({*facts, "platform"})
        if _is_seen_late(row) and _holds(row, facts, situation)
    )
    return Bounds(
        (*broken, *(item for one in found for item in one.items)),
        "; ".join(one.against for one in found if one.against),
        tuple(note for one in found for note in one.notes),
    )


def _is_broken(item: MatrixBound, versions: Mapping[str, Version]) -> bool:
    return item.name in versions and not admits(item.requirement.specifier, versions[item.name])


def _is_seen_late(row: Break) -> bool:
    """Whether it takes a resolution to tell: several packages, or the absence of one."""
    packages = row.when.keys() - _NOT_PACKAGES
    is_joint = len(packages) > 1 and not row.predicate
    return is_grave(row) and not row.handled_by and (is_joint or row.predicate in _ABSENCES)


def _holds(row: Break, facts: Mapping[str, Version], situation: Situation) -> bool:
    if row.platform not in {"", situation.system} or (row.beside and row.beside not in facts):
        return False
    if not all(admits(bound, facts[name]) for name, bound in row.when.items()):
        return False
    return not any(name in facts for name in _ABSENCES.get(row.predicate, ()))


def _cure(row: Break, versions: Mapping[str, Version], request: LockRequest) -> Bounds:
    """The first of the cures that the user's own bounds leave open, with the second at hand."""
    cures = [
        tuple(_bound(name, cure[name], row, versions) for name in sorted(cure))
        for cure in (row.fix, row.alternative)
        if cure and not cure.keys() & _NOT_PACKAGES and _is_open(cure, request)
    ]
    if cures:
        (first, *further), others = cures[0], tuple(item for cure in cures[1:] for item in cure)
        return Bounds((replace(first, otherwise=others), *further))
    involved = ", ".join(f"{name} {versions[name]}" for name in row.when if name in versions)
    if is_needed(row):
        return Bounds(against=f"{involved}: {row.title}")
    return Bounds(notes=(f"{involved}: {row.title}",))


def _is_open(cure: Mapping[str, SpecifierSet], request: LockRequest) -> bool:
    """Whether no exact pin of the user stands against it."""
    for name, bound in cure.items():
        stated = request.bounds_on(canonicalize_name(name))
        pinned = [c.version for c in stated if c.operator == "==" and not c.version.endswith("*")]
        if any(not admits(bound, Version(version)) for version in pinned):
            return False
    return True


def _bound(
    name: str, bound: SpecifierSet, row: Break, versions: Mapping[str, Version]
) -> MatrixBound:
    return MatrixBound(
        Requirement(f"{name}{bound}"),
        row.title,
        row.provenance.source.url,
        is_needed(row),
        is_asked_for=name not in versions,
    )
