"""The whole of a check without input or output: facts and matrix in, report out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from envguard.backend import BuildRequirements, has_gpu_to_serve, nearest_build
from envguard.checks import run_checks
from envguard.checks.remedies import install_command
from envguard.checks.wishes import as_of_today
from envguard.facts.findings import Remedy, Status
from envguard.facts.machine import OperatingSystem
from envguard.facts.report import Recommendation, Report, make_report
from envguard.facts.sentences import join_sentences, say
from envguard.fit import DriverGrade
from envguard.matrix.complete import complete_facts, possible_platforms
from envguard.matrix.rows import minimum_for

if TYPE_CHECKING:
    from packaging.version import Version

    from envguard.backend import Candidate
    from envguard.checks.context import CheckOptions
    from envguard.facts.environment import Environment
    from envguard.facts.facts import Facts
    from envguard.facts.findings import Finding
    from envguard.matrix.loader import Matrix
    from envguard.matrix.rows import TorchBuildRow


def judge(
    facts: Facts,
    matrix: Matrix,
    options: CheckOptions,
    *,
    notes: tuple[str, ...] = (),
    torch_index: str,
) -> Report:
    """Judge facts and say what would fit.

    Args:
        facts: As read or stated.
        matrix: The tables.
        options: What the user insists on.
        notes: Remarks on how the facts came together.
        torch_index: Template of the PyTorch index, ``{backend}`` to fill in.
    """
    completed = complete_facts(facts, matrix)
    options = replace(options, torch_index=torch_index)
    findings = run_checks(completed, matrix, options)
    firm = frozenset(f.package for f in findings if f.cause == "no-release-fits" and f.package)
    findings = tuple(as_of_today(finding, completed, firm) for finding in findings)
    recommended = None
    if _asks_for_build(completed, findings, matrix):
        candidate = _nearest_build(completed, matrix, options)
        if candidate is not None:
            recommended = _recommendation(candidate, completed, matrix, torch_index)
        findings = tuple(_with_remedy(f, recommended, matrix) for f in findings)
    return make_report(
        "check",
        completed,
        findings,
        matrix_version=matrix.manifest.data_version,
        cause_order=matrix.order.causes,
        recommended=recommended,
        notes=notes,
    )


def _asks_for_build(facts: Facts, findings: tuple[Finding, ...], matrix: Matrix) -> bool:
    """Whether no torch is there or another would help, and enough of the machine is known."""
    machine, environment = facts.machine, facts.environment
    torch = environment.torch if environment else None
    if torch is not None and not any(_is_curable(f, matrix) for f in findings):
        return False
    driver = machine.driver
    return machine.gpus is not None or driver.version is not None or driver.cuda is not None


def _is_curable(finding: Finding, matrix: Matrix) -> bool:
    if finding.package not in {None, "torch"} or finding.status is not Status.FAIL:
        return False
    return finding.cause in matrix.causes.cured_by_build


def _nearest_build(facts: Facts, matrix: Matrix, options: CheckOptions) -> Candidate | None:
    machine, environment = facts.machine, facts.environment
    torch = environment.torch if environment else None
    platform = possible_platforms(machine)[0]
    interpreter = environment.interpreter if environment else None
    wish = BuildRequirements(
        platform=platform,
        torch=SpecifierSet(),
        exact_only=options.exact_driver,
        python_tag=interpreter.python_tag if interpreter else None,
        allow_cpu=not has_gpu_to_serve((machine,)),
    )
    return nearest_build(torch, wish, (machine,), matrix)


def _recommendation(
    candidate: Candidate, facts: Facts, matrix: Matrix, torch_index: str
) -> Recommendation:
    environment = facts.environment
    build = candidate.build
    url = matrix.torch.index_url(build.backend, torch_index)
    why = candidate.why
    if facts.machine.host.platform is None:
        why = join_sentences(
            why, say("(for {platform}: the platform is not stated)", platform=build.platform)
        )
    if candidate.grade is DriverGrade.UNKNOWN:
        row = matrix.drivers.major_floor(build.backend.cuda.major) if build.backend.cuda else None
        is_windows = facts.machine.host.is_wsl or build.platform.system is OperatingSystem.WINDOWS
        system = OperatingSystem.WINDOWS if is_windows else OperatingSystem.LINUX
        floor = minimum_for(row, system) if row else None
        if floor:
            why = say("{why}, it has to be at least {floor}", why=why, floor=floor)
    pins = [f"torch=={build.label}", *_companion_pins(environment, build, matrix)]
    manager = environment.manager if environment else None
    return Recommendation(
        torch=str(build.version),
        backend=build.backend.label,
        index_url=url,
        why=why,
        command=install_command(manager, tuple(pins), url),
    )


def _companion_pins(
    environment: Environment | None, build: TorchBuildRow, matrix: Matrix
) -> tuple[str, ...]:
    """Pins for the companions that are installed now, released for the recommended torch."""
    release = matrix.torch.release(build.version)
    if environment is None or release is None:
        return ()
    versions = {"torchvision": release.torchvision, "torchaudio": release.torchaudio}
    return tuple(
        f"{name}=={found[-1]}" + _companion_label(name, found[-1], build, matrix)
        for name, found in versions.items()
        if found and environment.distribution(name) is not None
    )


def _companion_label(name: str, version: Version, build: TorchBuildRow, matrix: Matrix) -> str:
    is_labelled = build.has_label and matrix.index.is_labelled(
        name, version, build.backend, build.platform
    )
    return f"+{build.backend.label}" if is_labelled else ""


def _with_remedy(finding: Finding, recommended: Recommendation | None, matrix: Matrix) -> Finding:
    """Put what another build would cure first; that there is none has to be said as well."""
    if not _is_curable(finding, matrix):
        return finding
    own = finding.remedy.text if finding.remedy is not None else ""
    if recommended is None:
        text = say("no torch build that the tables know serves this machine as it is")
        return replace(finding, remedy=Remedy(join_sentences(text, own, by="; ")))
    text = say(
        "install torch {torch} from {backend}", torch=recommended.torch, backend=recommended.backend
    )
    if own:
        text = say("{first}; or: {alternative}", first=text, alternative=own)
    return replace(finding, remedy=Remedy(text, recommended.command))
