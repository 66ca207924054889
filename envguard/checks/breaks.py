"""The breaks family: combinations in the table of known breaks, one finding for each that holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.checks.companions import known_versions
from envguard.checks.installed import is_pinned_only, judged_torch, lists_everything
from envguard.checks.remedies import install_remedy, pins_of
from envguard.conditions import NOT_DISTRIBUTIONS, KnownValues, break_holds, subjects
from envguard.facts.environment import Accelerator
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.sentences import join_sentences, say
from envguard.matrix.packages import BreakScope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from envguard.checks.context import CheckOptions
    from envguard.facts.facts import Facts
    from envguard.matrix.breaks import Break
    from envguard.matrix.loader import Matrix

_CODES = {
    BreakScope.IMPORT: "BRK001",
    BreakScope.OP_BUILD: "BRK002",
    BreakScope.EXTENSION_BUILD: "BRK003",
    BreakScope.CHECKPOINT_LOAD: "BRK004",
    BreakScope.RESOLVER: "BRK005",
    BreakScope.RUNTIME: "BRK006",
    BreakScope.COMPILE: "BRK007",
    BreakScope.INFERENCE: "BRK008",
    BreakScope.NUMPY_INTEROP: "BRK009",
    BreakScope.COVERAGE: "BRK010",
    BreakScope.LAUNCHER: "BRK011",
    BreakScope.USER_CODE: "BRK012",
    BreakScope.INSTALL: "BRK013",
    BreakScope.FEATURE: "BRK014",
}


def check_breaks(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Every row of the table whose conditions all hold."""
    known = known_values(facts)
    if not known.versions:
        return
    for row in matrix.breaks.about(known.names):
        if not row.handled_by and break_holds(row, known):
            yield break_finding(row, known.versions, facts, break_status(row, known, facts))


def known_values(facts: Facts) -> KnownValues:
    """What the conditions of breaks and bugs are about, as far as facts can say."""
    platform, environment = facts.machine.host.platform, facts.environment
    names = [gpu.name for gpu in facts.machine.gpus or () if gpu.name]
    listed = environment.distributions if environment and lists_everything(facts) else None
    torch = environment.torch if environment else None
    return KnownValues(
        versions=_versions(facts),
        system=platform.system.value if platform else "",
        distributions=None if listed is None else frozenset(one.name for one in listed),
        gpus=frozenset(word for name in names for word in name.split()) if names else None,
        cuda=torch.cuda if torch else None,
        toolkit=facts.machine.toolkit.nvcc,
    )


def _versions(facts: Facts) -> dict[str, Version]:
    versions = known_versions(facts)
    if not versions:
        return {}
    torch = judged_torch(facts)
    if torch is not None and torch.accelerator is Accelerator.CUDA and torch.cuda is not None:
        versions["torch_cuda"] = Version(str(torch.cuda))
    interpreter = facts.environment.interpreter if facts.environment else None
    if interpreter is not None and interpreter.version is not None:
        versions["python"] = interpreter.version
    if facts.machine.toolkit.nvcc is not None:
        versions["cuda_toolkit"] = Version(str(facts.machine.toolkit.nvcc))
    return versions


def break_finding(
    row: Break, versions: Mapping[str, Version], facts: Facts, status: Status
) -> Finding:
    """What is said of a break.

    Args:
        row: The break.
        versions: What its conditions are about, as far as known.
        facts: Where it happens.
        status: How it counts.
    """
    package = _about(row, versions)
    environment = facts.environment
    distribution = environment.distribution(package) if environment else None
    return Finding(
        code=_CODES[row.scope],
        cause=row.cause,
        status=status,
        title=_title(row, versions),
        detail=_detail(row, versions),
        package=package,
        evidence=_evidence(row, versions),
        remedy=_remedy(row, facts),
        source=row.provenance.source,
        line=distribution.line if distribution else None,
    )


def _about(row: Break, versions: Mapping[str, Version]) -> str:
    """The distribution that a break is about: the first of its conditions that is one."""
    names = (
        *subjects(row, versions),
        *(name for name in row.when if name not in NOT_DISTRIBUTIONS),
    )
    return names[0]


def break_status(row: Break, known: KnownValues, facts: Facts) -> Status:
    """How grave a break is.

    Only what keeps a program from starting, or from doing anything with the package, fails, and
    only on firm ground. A break of something that has to be switched on does not count: whether
    it is cannot be seen. A declared conflict was overruled where it is installed all the same.
    """
    if row.scope is BreakScope.COVERAGE:
        return Status.OK
    if row.feature:
        return Status.SKIP
    if row.scope is BreakScope.INSTALL and not is_pinned_only(facts):
        return Status.WARN
    if row.beside and row.beside not in known.versions:
        return Status.WARN
    firm = row.provenance.is_firm
    return Status.FAIL if row.scope.is_fatal and firm else Status.WARN


def _title(row: Break, versions: Mapping[str, Version]) -> str:
    names = [*subjects(row, versions), *row.when]
    found = ", ".join(
        f"{_spoken(name)} {versions[name]}" for name in dict.fromkeys(names) if name in versions
    )
    return say("{packages}: {title}", packages=found, title=row.title) if found else row.title


def _spoken(name: str) -> str:
    return {"torch_cuda": "torch's CUDA", "python": "Python", "cuda_toolkit": "nvcc"}.get(
        name, name
    )


def _detail(row: Break, versions: Mapping[str, Version]) -> str:
    said = row.text
    if row.feature:
        said = say("Only where {feature} is used. {said}", feature=row.feature, said=said)
    if row.beside and row.beside not in versions:
        said = say(
            "Only together with {package}, which is not listed. {said}",
            package=row.beside,
            said=said,
        )
    if row.provenance.note:
        said = say("{said} {note}", said=said, note=row.provenance.note)
    return said


def _evidence(row: Break, versions: Mapping[str, Version]) -> tuple[Evidence, ...]:
    names = (*subjects(row, versions), *row.when)
    facts = {
        "torch_cuda": "torch.cuda",
        "python": "interpreter.version",
        "cuda_toolkit": "toolkit.nvcc",
    }
    return tuple(
        Evidence(facts.get(name, f"distribution[{name}].version"), str(versions[name]), "metadata")
        for name in dict.fromkeys(names)
        if name in versions
    )


def _remedy(row: Break, facts: Facts) -> Remedy | None:
    if not row.fix:
        return Remedy(row.workaround) if row.workaround else None
    pins = pins_of(row.fix)
    parts: list[str] = [say("install {pins}", pins=", ".join(pins))]
    if row.alternative:
        parts.append(say("install {pins}", pins=", ".join(pins_of(row.alternative))))
    if row.workaround:
        parts.append(row.workaround)
    return install_remedy(facts.environment, pins, text=join_sentences(*parts, by="; or "))
