"""The companions family: what packages require of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.checks.context import (
    CheckOptions,
    torch_evidence,
    torch_words,
)
from envguard.checks.installed import admits, judged_torch, packages_of
from envguard.checks.remedies import install_remedy, pins_of
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.matrix.package_rows import AbiKind, Coverage, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packaging.specifiers import SpecifierSet

    from envguard.checks.installed import Package
    from envguard.facts.facts import Facts
    from envguard.matrix.loader import Matrix
    from envguard.matrix.package_rows import PackageRange
    from envguard.matrix.rows import Provenance


def known_versions(facts: Facts) -> dict[str, Version]:
    """Versions by distribution, and torch's as it would be imported."""
    environment = facts.environment
    if environment is None:
        return {}
    found: dict[str, Version] = {}
    for distribution in environment.distributions or ():
        if distribution.version is not None:
            found.setdefault(distribution.name, distribution.version)
    torch = judged_torch(facts)
    if torch is not None and torch.version is not None:
        found["torch"] = torch.version
    else:
        found.pop("torch", None)  # a nightly or a vendor's build: no bound is about it
    return found


def check_requirements(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """What the metadata of installed packages require of each other."""
    versions = known_versions(facts)
    for package in packages_of(facts, matrix):
        declared, provenance = _declared(package)
        if _is_compiled(package):
            declared.pop("torch", None)  # the pairing family judges it
        unmet = {
            name: bound
            for name, bound in declared.items()
            if name in versions and not admits(bound, versions[name])
        }
        if unmet and provenance is not None:
            yield _unmet(package, unmet, versions, provenance, facts)


def _declared(package: Package) -> tuple[dict[str, SpecifierSet], Provenance | None]:
    declared: dict[str, SpecifierSet] = {}
    provenance: Provenance | None = None
    for found in package.ranges:
        if found.declares:
            declared.update(found.declares)
            provenance = found.provenance
    release = package.release or package.like
    if release is not None and not (package.like and _changes_often(package)):
        declared.update(release.requires)
        provenance = release.provenance
    return declared, provenance


def _changes_often(package: Package) -> bool:
    """Whether the releases between two rows may each require something else."""
    return package.table.coverage is Coverage.MONTHS


def _is_compiled(package: Package) -> bool:
    kind = next((r.abi for r in package.ranges if r.abi is not None), None)
    return kind in {AbiKind.CLASSIC, AbiKind.STABLE}


def _unmet(
    package: Package,
    unmet: Mapping[str, SpecifierSet],
    versions: Mapping[str, Version],
    provenance: Provenance,
    facts: Facts,
) -> Finding:
    bounds = pins_of(unmet)
    found = ", ".join(f"{name} {versions[name]}" for name in sorted(unmet))
    like = package.like
    said = f"The metadata of {like.version} say so" if like else "Its metadata say so"
    return Finding(
        code="PKG001",
        cause="requirement-not-met",
        status=Status.WARN,
        title=f"{package.words} requires {', '.join(bounds)}, found {found}",
        detail=f"{said}; pip reports the conflict. Whether it bites depends on what is used.",
        package=package.name,
        evidence=(
            package.evidence,
            *(Evidence(f"distribution[{n}].version", str(versions[n]), "metadata") for n in unmet),
        ),
        remedy=install_remedy(facts.environment, bounds),
        source=provenance.source,
        line=package.distribution.line,
    )


def check_triton(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """The triton that a CUDA build of torch compiles its kernels with; Linux only."""
    torch, environment = judged_torch(facts), facts.environment
    triton = environment.distribution("triton") if environment else None
    table = matrix.packages("torch")
    if torch is None or torch.version is None or torch.cuda is None or table is None:
        return
    release = table.release(torch.version)
    bound = release.requires.get("triton") if release else None
    if triton is None or triton.version is None or release is None or bound is None:
        return
    if admits(bound, triton.version):
        return
    yield Finding(
        code="PKG002",
        cause="triton-for-other-torch",
        status=Status.WARN,
        title=f"triton {triton.version} is not the one of {torch_words(torch)}, triton{bound}",
        detail="torch works; torch.compile, and packages whose kernels are written in Triton, may "
        "fail.",
        package="triton",
        evidence=(
            Evidence("distribution[triton].version", str(triton.version), "metadata"),
            *torch_evidence(torch),
        ),
        remedy=install_remedy(environment, pins_of({"triton": bound})),
        source=release.provenance.source,
        line=triton.line,
    )


def check_features(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """What features of a package need of other packages that are there."""
    versions = known_versions(facts)
    torch = judged_torch(facts)
    if torch is not None and torch.cuda is not None:
        versions["torch_cuda"] = Version(str(torch.cuda))
    for package in packages_of(facts, matrix):
        for row in package.ranges:
            for name, bound in row.needs.items():
                if name in versions and not admits(bound, versions[name]):
                    yield _too_old(package, row, name, bound, versions[name], facts)


def _too_old(
    package: Package,
    row: PackageRange,
    name: str,
    bound: SpecifierSet,
    version: Version,
    facts: Facts,
) -> Finding:
    is_fatal = row.scope is Scope.IMPORT
    pins = pins_of({name: bound})
    is_cuda = name == "torch_cuda"
    what = f"torch for CUDA{bound}" if is_cuda else pins[0]
    return Finding(
        code="PKG004",
        cause="torch-too-old-for-package" if name == "torch" else "feature-needs-newer-package",
        status=Status.FAIL if is_fatal and row.provenance.is_firm else Status.WARN,
        title=f"{package.words} needs {what} for {row.feature.partition(':')[0]}",
        detail=f"Found {'CUDA' if is_cuda else name} {version}. "
        + (f"Without it: {row.feature.partition(': ')[2]}." if ": " in row.feature else ""),
        package=package.name,
        evidence=(
            package.evidence,
            Evidence(
                "torch.cuda" if is_cuda else f"distribution[{name}].version",
                str(version),
                "metadata",
            ),
        ),
        remedy=Remedy(f"install {what}") if is_cuda else install_remedy(facts.environment, pins),
        source=row.provenance.source,
        line=package.distribution.line,
    )
