"""The companions family: what packages require of each other, of Python and of the GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.checks.context import (
    CheckOptions,
    gpu_evidence,
    gpu_words,
    torch_evidence,
    torch_words,
)
from envguard.checks.installed import is_pinned_only, judged_torch, packages_of
from envguard.checks.remedies import install_remedy, pins_of
from envguard.conditions import admits, contradicted
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.sentences import join_sentences, say
from envguard.matrix.packages import AbiKind, BreakScope, Coverage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packaging.specifiers import SpecifierSet

    from envguard.checks.installed import Package
    from envguard.facts.facts import Facts
    from envguard.facts.machine import Gpu
    from envguard.matrix.loader import Matrix
    from envguard.matrix.packages import PackageRange
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
        unmet = contradicted(declared, versions)
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
    said = (
        say("The metadata of {version} say so", version=like.version)
        if like
        else "Its metadata say so"
    )
    return Finding(
        code="PKG001",
        cause="requirement-not-met",
        status=Status.WARN,
        title=say(
            "{package} requires {bounds}, found {found}",
            package=package.words,
            bounds=", ".join(bounds),
            found=found,
        ),
        detail=say(
            "{said}; pip reports the conflict. Whether it bites depends on what is used.", said=said
        ),
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
        title=say(
            "triton {version} is not the one of {torch}, triton{bound}",
            version=triton.version,
            torch=torch_words(torch),
            bound=bound,
        ),
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
            for name, bound in contradicted(row.needs, versions).items():
                yield _too_old(package, row, name, bound, versions[name], facts)


def _too_old(
    package: Package,
    row: PackageRange,
    name: str,
    bound: SpecifierSet,
    version: Version,
    facts: Facts,
) -> Finding:
    is_fatal = row.scope is BreakScope.IMPORT
    pins = pins_of({name: bound})
    is_cuda = name == "torch_cuda"
    what = say("torch for CUDA{bound}", bound=bound) if is_cuda else pins[0]
    found = say("Found {name} {version}. ", name="CUDA" if is_cuda else name, version=version)
    _, colon, consequence = row.feature.partition(": ")
    return Finding(
        code="PKG004",
        cause="torch-too-old-for-package" if name == "torch" else "feature-needs-newer-package",
        status=Status.FAIL if is_fatal and row.provenance.is_firm else Status.WARN,
        title=say(
            "{package} needs {wanted} for {feature}",
            package=package.words,
            wanted=what,
            feature=row.feature.partition(":")[0],
        ),
        detail=say("{found}Without it: {consequence}.", found=found, consequence=consequence)
        if colon
        else found,
        package=package.name,
        evidence=(
            package.evidence,
            Evidence(
                "torch.cuda" if is_cuda else f"distribution[{name}].version",
                str(version),
                "metadata",
            ),
        ),
        remedy=Remedy(say("install {wanted}", wanted=what))
        if is_cuda
        else install_remedy(facts.environment, pins),
        source=row.provenance.source,
        line=package.distribution.line,
    )


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
            say("Python {version} is a pre-release", version=version),
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
        title=say(
            "{package} is for Python {pythons}, this is {version}",
            package=package.words,
            pythons=stated,
            version=version,
        ),
        detail="pip refuses to install it here." if pinned else "pip would not have installed it.",
        package=package.name,
        evidence=(package.evidence, evidence),
        remedy=Remedy(
            say(
                "use Python {pythons}, or a release of {package} for Python {version}",
                pythons=stated,
                package=package.name,
                version=version,
            )
        ),
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
            left_out = tuple(g for g in gpus if g.capability and not row.serves(g.capability))
            if left_out:
                yield _not_served(
                    package, row, left_out, facts, is_every=len(left_out) == len(gpus)
                )


def _not_served(
    package: Package, row: PackageRange, old: tuple[Gpu, ...], facts: Facts, *, is_every: bool
) -> Finding:
    is_feature = row.scope is BreakScope.FEATURE
    firm = row.provenance.is_firm
    status = Status.FAIL if firm and is_every else Status.WARN
    if is_feature:
        status = Status.WARN if firm else Status.SKIP
    return Finding(
        code="PKG005",
        cause="package-gpu-too-old" if is_feature else "arch-missing-old-gpu",
        status=status,
        title=say(
            "{package} needs compute capability {capability}{end} for {feature}",
            package=package.words,
            capability=row.capability,
            end=say(" to below {end}", end=row.capability_end) if row.capability_end else "",
            feature=row.feature,
        ),
        detail=join_sentences(
            say("{gpu}: it raises there.", gpu=gpu_words(old)),
            "" if is_every else "Other GPUs of this machine are served.",
        ),
        gpus=tuple(gpu.index for gpu in old),
        package=package.name,
        evidence=(package.evidence, *(e for gpu in old[:4] for e in gpu_evidence(facts, gpu))),
        remedy=Remedy(
            say("do without {feature}", feature=row.feature)
            if is_feature
            else say("do without {package} on this GPU", package=package.name)
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
                    say(
                        "{package} is not the package that its name suggests", package=package.words
                    ),
                    say("It is {foreign}.", foreign=row.foreign),
                    package=package.name,
                    evidence=(package.evidence, *(torch_evidence(torch) if torch else ())),
                    remedy=Remedy(
                        say("uninstall {package}, and install what was meant", package=package.name)
                    ),
                    source=row.provenance.source,
                    line=package.distribution.line,
                )
