"""Compares rows about packages with what a registry publishes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from envguard.facts.published import Published
    from envguard.matrix.package_rows import PackageRelease
    from envguard.matrix.packages import PackageTable

_RUNTIME = re.compile(r"nvidia-cuda-runtime-cu[0-9]+|cuda-toolkit")


@dataclass(frozen=True, slots=True)
class Drift:
    """One field in which a row and the registry differ.

    Args:
        table: File of the row.
        version: The release; empty when the row is missing.
        field: The field.
        stated: What the row says.
        found: What the registry says.
    """

    table: str
    version: str
    field: str
    stated: str
    found: str

    def __str__(self) -> str:
        return f"{self.table}: {self.version}: {self.field}: {self.stated!r}, found {self.found!r}"


def compare_release(
    table: PackageTable, release: PackageRelease, published: Published
) -> Iterator[Drift]:
    """The fields in which a row differs from what is published.

    A requirement that the row does not state is no drift: rows hold those that matter here.

    Args:
        table: Its table.
        release: The row.
        published: The same release in the registry.
    """
    differences = (
        *_python(release, published),
        *_requirements(release, published),
        *_cuda(release, published),
        *_files(release, published),
    )
    for field, stated, found in differences:
        yield Drift(table.document.name, str(release.version), field, stated, found)


def _python(release: PackageRelease, published: Published) -> Iterator[tuple[str, str, str]]:
    stated = release.python if release.python is not None else SpecifierSet()
    if stated != SpecifierSet(published.requires_python):
        yield "python", str(release.python or ""), published.requires_python


def _requirements(release: PackageRelease, published: Published) -> Iterator[tuple[str, str, str]]:
    plain, extras = _by_name(published.requires)
    for name, bound in release.requires.items():
        if name not in plain:
            # SGLang and others moved a requirement into an extra and back.
            if bound not in extras.get(name, ()):
                yield f"requires.{name}", str(bound) or "any", "no requirement"
        elif bound not in plain[name]:
            yield f"requires.{name}", str(bound) or "any", _listed(plain[name])
    for name, bound in release.extras.items():
        if bound not in extras.get(name, ()):
            yield f"extras.{name}", str(bound) or "any", _listed(extras.get(name, ()))


def _by_name(
    requires: Iterable[str],
) -> tuple[Mapping[str, tuple[SpecifierSet, ...]], Mapping[str, tuple[SpecifierSet, ...]]]:
    """The bounds on each distribution, by markers: unconditional or not, and those of extras."""
    plain: dict[str, tuple[SpecifierSet, ...]] = {}
    extras: dict[str, tuple[SpecifierSet, ...]] = {}
    for text in requires:
        try:
            requirement = Requirement(text.replace(" (", " ").replace(")", "", 1))
        except InvalidRequirement:
            requirement = Requirement(text)
        of_extra = requirement.marker is not None and "extra ==" in str(requirement.marker)
        found = extras if of_extra else plain
        name = canonicalize_name(requirement.name)
        found[name] = (*found.get(name, ()), requirement.specifier)
    return plain, extras


def _listed(bounds: Iterable[SpecifierSet]) -> str:
    return " or ".join(str(bound) or "any" for bound in bounds) or "no requirement"


def _cuda(release: PackageRelease, published: Published) -> Iterator[tuple[str, str, str]]:
    """The CUDA release that the requirements on NVIDIA's runtime name."""
    stated = release.cuda
    for text in published.requires if stated else ():
        requirement = Requirement(text)
        if not _RUNTIME.fullmatch(canonicalize_name(requirement.name)) or stated is None:
            continue
        for specifier in requirement.specifier:
            if specifier.operator != "==":
                continue
            found = Version(specifier.version.removesuffix(".*"))
            same = found.release[:2] == (
                (stated.cuda.major, stated.cuda.minor) if stated.cuda else ()
            )
            if found.major != stated.major and not same:
                yield "cuda", str(stated), str(found)


def _files(release: PackageRelease, published: Published) -> Iterator[tuple[str, str, str]]:
    if not published.wheels:
        return
    found = {_python_tag(name) for name in published.wheels}
    if release.pythons and set(release.pythons) != found:
        yield "pythons", " ".join(release.pythons), " ".join(sorted(found))
    if release.released and published.released and release.released != published.released:
        yield "released", release.released, published.released
    if published.is_yanked not in {None, release.is_yanked}:
        yield "yanked", str(release.is_yanked), str(published.is_yanked)


def _python_tag(wheel: str) -> str:
    """``cp312``, ``cp313t``, ``cp39-abi3`` or ``py3`` of a wheel's name."""
    python, abi = wheel.removesuffix(".whl").split("-")[-3:-1]
    if abi == "abi3":
        return f"{python}-abi3"
    python = "py3" if python == "py2.py3" else python
    # cp313t is an interpreter of its own, cp37m was the only one of its time.
    return abi.removesuffix("m") if abi.startswith(python) else python


def missing_releases(table: PackageTable, versions: Iterable[Version]) -> Iterator[Drift]:
    """Published releases above the newest row; pre-releases do not count.

    Args:
        table: The table.
        versions: Everything that the registry lists.
    """
    newest = max((release.version for release in table.releases), default=None)
    for version in sorted(versions):
        if newest is not None and version > newest and not version.is_prerelease:
            yield Drift(table.document.name, str(version), "row", "", "published, has no row")
