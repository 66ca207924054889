"""The limits family: the Python and the GPUs that packages need, and names that mislead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.checks.context import CheckOptions, gpu_evidence, gpu_words, torch_evidence
from envguard.checks.installed import is_pinned_only, packages_of
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.matrix.package_rows import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.specifiers import SpecifierSet

    from envguard.checks.installed import Package
    from envguard.facts.facts import Facts
    from envguard.facts.machine import Gpu
    from envguard.matrix.loader import Matrix
    from envguard.matrix.package_rows import PackageRange
    from envguard.matrix.rows import Provenance


def check_python(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """The interpreter against the Pythons that packages state, and whether it is a release."""
    interpreter = facts.environment.interpreter if facts.environment else None
    version = interpreter.version if interpreter else None
    if version is None:
        return
    evidence = Evidence("interpreter.version", str(version), "interpreter")
    if version.is_prerelease:
        yield Finding(
            "PKG006",
            "prerelease-python",
            Status.WARN,
            f"Python {version} is a pre-release",
            "Wheels are built against the released interpreter; structures may still have changed, "
            "which shows as crashes at import.",
            evidence=(evidence,),
            remedy=Remedy("use the released Python of this minor"),
        )
    for package in packages_of(facts, matrix):
        stated, provenance = _pythons(package)
        if stated is not None and provenance is not None and not _admits_python(stated, version):
            yield _wrong_python(package, stated, version, provenance, evidence, facts)


def _pythons(package: Package) -> tuple[SpecifierSet | None, Provenance | None]:
    if package.release is not None and package.release.python is not None:
        return package.release.python, package.release.provenance
    row = next((r for r in package.ranges if r.python is not None), None)
    return (row.python, row.provenance) if row else (None, None)


def _admits_python(stated: SpecifierSet, version: Version) -> bool:
    """Of ``3.12`` alone the patch is not known: any patch that is admitted will do."""
    if len(version.release) > 2:
        return stated.contains(version.base_version, prereleases=True)
    newest = Version(f"{version.major}.{version.minor}.99")
    return stated.contains(str(version), prereleases=True) or stated.contains(str(newest))


def _wrong_python(
    package: Package,
    stated: SpecifierSet,
    version: Version,
    provenance: Provenance,
    evidence: Evidence,
    facts: Facts,
) -> Finding:
    pinned = is_pinned_only(facts)
    return Finding(
        code="PKG003",
        cause="python-not-supported",
        status=Status.FAIL if pinned and provenance.is_firm else Status.WARN,
        title=f"{package.words} is for Python {stated}, this is {version}",
        detail="pip refuses to install it here." if pinned else "pip would not have installed it.",
        package=package.name,
        evidence=(package.evidence, evidence),
        remedy=Remedy(f"use Python {stated}, or a release of {package.name} for Python {version}"),
        source=provenance.source,
        line=package.distribution.line,
    )


def check_capability(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Packages whose kernels need a newer GPU."""
    gpus = tuple(gpu for gpu in facts.machine.selected_gpus if gpu.capability is not None)
    if not gpus:
        return
    for package in packages_of(facts, matrix):
        for row in package.ranges:
            if row.capability is not None:
                old = tuple(g for g in gpus if g.capability and g.capability < row.capability)
                if old:
                    yield _too_old_gpu(package, row, old, facts, is_every=len(old) == len(gpus))


def _too_old_gpu(
    package: Package, row: PackageRange, old: tuple[Gpu, ...], facts: Facts, *, is_every: bool
) -> Finding:
    is_feature = row.scope is Scope.FEATURE
    firm = row.provenance.is_firm
    status = Status.FAIL if firm and is_every else Status.WARN
    if is_feature:
        status = Status.WARN if firm else Status.SKIP
    return Finding(
        code="PKG005",
        cause="package-gpu-too-old" if is_feature else "arch-missing-old-gpu",
        status=status,
        title=f"{package.words} needs compute capability {row.capability} for {row.feature}",
        detail=f"{gpu_words(old)}: it raises there."
        + ("" if is_every else " Other GPUs of this machine are served."),
        gpus=tuple(gpu.index for gpu in old),
        package=package.name,
        evidence=(package.evidence, *(e for gpu in old[:4] for e in gpu_evidence(facts, gpu))),
        remedy=Remedy(
            f"do without {row.feature}" if is_feature else f"do without {package.name} on this GPU"
        ),
        source=row.provenance.source,
        line=package.distribution.line,
    )


def check_foreign(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Distributions that are another project than their name suggests."""
    torch = facts.environment.torch if facts.environment else None
    for package in packages_of(facts, matrix):
        for row in package.ranges:
            if row.foreign:
                yield Finding(
                    "PKG008",
                    "foreign-distribution",
                    Status.WARN,
                    f"{package.words} is not the package that its name suggests",
                    f"It is {row.foreign}.",
                    package=package.name,
                    evidence=(package.evidence, *(torch_evidence(torch) if torch else ())),
                    remedy=Remedy(f"uninstall {package.name}, and install what was meant"),
                    source=row.provenance.source,
                    line=package.distribution.line,
                )
