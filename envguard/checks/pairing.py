"""The pairing family: was a package's compiled code built for this torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envguard.checks.context import CheckOptions, torch_evidence, torch_words
from envguard.checks.installed import Package, admits, judged_torch, packages_of
from envguard.checks.remedies import companion_pin, install_remedy
from envguard.facts.environment import TorchBuild
from envguard.facts.findings import Finding, Remedy, Status
from envguard.matrix.package_rows import AbiKind, Mismatch
from envguard.matrix.rows import Provenance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.facts import Facts
    from envguard.matrix.loader import Matrix

_HAPPENS = {
    Mismatch.IMPORT: "Importing it fails with an undefined symbol or a missing operator.",
    Mismatch.NO_KERNELS: "It imports with a warning and has none of its kernels.",
    Mismatch.DEGRADED: "It says so and goes on without its compiled code.",
    Mismatch.ABORT: "Importing it ends the process.",
    None: "Its compiled code may not load.",
}
_OPERATOR = (
    "import torchvision raises 'operator torchvision::nms does not exist', or an undefined symbol."
)


@dataclass(frozen=True, slots=True)
class _Misfit:
    """A package whose compiled code was built for another torch.

    Args:
        package: The package.
        torch: The build beside it.
        status: How grave that is.
        bound: The torch that it was built for.
        mismatch: What happens; None when not recorded.
        provenance: The row that says so.
    """

    package: Package
    torch: TorchBuild
    status: Status
    bound: SpecifierSet
    mismatch: Mismatch | None
    provenance: Provenance


def check_built_for_torch(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Compiled packages against the torch that they were built for."""
    torch = judged_torch(facts)
    if torch is None or torch.version is None:
        return
    for package in packages_of(facts, matrix):
        if package.version.is_prerelease and package.release is None:
            continue  # a nightly or a vendor's build: it was not built for a release
        misfit = _judge(package, torch, torch.version)
        if misfit is not None:
            yield _finding(misfit, _remedy(misfit, facts, matrix, options))


def _judge(package: Package, torch: TorchBuild, version: Version) -> _Misfit | None:
    """What a package's code was built for, where this torch is another; None where it fits."""
    found = built_for(package)
    if found is None or admits(found[0], version):
        return None
    bound, provenance = found
    kind, mismatch = _kind(package), _mismatch(package)
    is_grave = mismatch in {Mismatch.IMPORT, Mismatch.ABORT, Mismatch.NO_KERNELS}
    # torch keeps its symbols within a minor, as a rule; code on its stable ABI runs on later ones.
    near = _is_near(bound, version)
    later = kind is AbiKind.STABLE and _is_above(bound, version)
    severe = is_grave and provenance.is_firm and not near and not later
    status = Status.FAIL if severe else Status.WARN
    return _Misfit(package, torch, status, bound, mismatch, provenance)


def built_for(package: Package) -> tuple[SpecifierSet, Provenance] | None:
    """The torch releases that a package's compiled code goes with.

    An exact requirement says so for a package that is compiled; a range says so where the table
    knows it better. None for packages without compiled code, or where nothing is recorded.
    """
    for found in package.ranges:
        specifier = found.torch if found.torch is not None else found.loads
        if specifier is not None:
            return specifier, found.provenance
    release = package.release
    if release is None:
        return None
    if release.torch is not None:
        return release.torch, release.provenance
    if _kind(package) in {None, AbiKind.NONE}:
        return None
    required = release.requires.get("torch")
    return (required, release.provenance) if required else None


def _kind(package: Package) -> AbiKind | None:
    return next((r.abi for r in package.ranges if r.abi is not None), None)


def _mismatch(package: Package) -> Mismatch | None:
    return next((r.mismatch for r in package.ranges if r.mismatch is not None), None)


def _is_near(specifier: SpecifierSet, torch: Version) -> bool:
    """Whether only the patch differs."""
    pinned = (s.version.removesuffix(".*") for s in specifier if s.operator == "==")
    return any(Version(text).release[:2] == torch.release[:2] for text in pinned)


def _is_above(specifier: SpecifierSet, torch: Version) -> bool:
    bounds = [Version(s.version.removesuffix(".*")) for s in specifier]
    return bool(bounds) and all(Version(torch.public) > bound for bound in bounds)


def _finding(misfit: _Misfit, remedy: Remedy) -> Finding:
    package, torch = misfit.package, misfit.torch
    is_vision = package.name == "torchvision"
    happens = _OPERATOR if is_vision else _HAPPENS[misfit.mismatch]
    if misfit.status is Status.WARN and misfit.mismatch is not Mismatch.DEGRADED:
        happens = f"{happens} It may work all the same: the two are close, or the rule is inferred."
    return Finding(
        code="ABI001" if is_vision else "ABI002",
        cause="vision-torch-mismatch" if is_vision else "abi-torch-version",
        status=misfit.status,
        title=f"{package.words} was built for torch{misfit.bound}, not for {torch_words(torch)}",
        detail=happens,
        package=package.name,
        evidence=(package.evidence, *torch_evidence(torch)),
        remedy=remedy,
        source=misfit.provenance.source,
        line=package.distribution.line,
    )


def _remedy(misfit: _Misfit, facts: Facts, matrix: Matrix, options: CheckOptions) -> Remedy:
    name = misfit.package.name
    found = companion_pin(name, misfit.torch, matrix, options.torch_index)
    if found is None:
        return Remedy(
            f"install a release of {name} that was built for torch {misfit.torch.version}, or "
            f"torch{misfit.bound}"
        )
    pin, index_url = found
    return install_remedy(facts.environment, (pin,), index_url=index_url)
