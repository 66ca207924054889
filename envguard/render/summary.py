"""What every format says alike: the verdict, the machine and the environment in a few words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from envguard.facts.environment import Accelerator
from envguard.facts.findings import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envguard.facts.facts import Facts
    from envguard.facts.findings import Finding
    from envguard.facts.report import Report


_WORDS = {
    Status.FAIL: "does not fit",
    Status.UNKNOWN: "could not tell",
    Status.WARN: "fits, with warnings",
    Status.OK: "fits",
    Status.SKIP: "not applicable",
}
_OWN_WORDS = {
    "smoke": {
        Status.FAIL: "failed",
        Status.WARN: "passed, with warnings",
        Status.OK: "passed",
    },
    "diagnose": {
        Status.FAIL: "the cause is established",
        Status.UNKNOWN: "the cause is not established",
        Status.WARN: "nothing died, with warnings",
        Status.OK: "nothing wrong was found",
    },
}


_ORDER = (Status.FAIL, Status.UNKNOWN, Status.WARN, Status.OK, Status.SKIP)


def by_gravity(findings: tuple[Finding, ...]) -> list[Finding]:
    """The findings, the gravest first, otherwise in the order found."""
    return sorted(findings, key=lambda finding: _ORDER.index(finding.status))


def is_outside(report: Report) -> bool:
    """Whether a check met a torch that it does not judge: neither for NVIDIA GPUs nor the CPU."""
    torch = report.facts.environment.torch if report.facts.environment else None
    judged = {None, Accelerator.CUDA, Accelerator.CPU}
    return report.command == "check" and torch is not None and torch.accelerator not in judged


def title_of(report: Report) -> str:
    """What a report is headed with: the command, and the file where it is one of several."""
    file = report.extra.get("file")
    return f"envguard {report.command}" + (f" {file}" if file else "")


def tally_words(reports: Sequence[Report]) -> str:
    """How many of several files have which verdict, the gravest first."""
    counts = Counter(verdict_words(report) for report in sorted(reports, key=_gravity))
    said = "; ".join(f"{count} {words}" for words, count in counts.items())
    return f"envguard {reports[0].command}: {len(reports)} files: {said}"


def _gravity(report: Report) -> int:
    return _ORDER.index(report.verdict)


def verdict_words(report: Report) -> str:
    """The verdict in the words of its command."""
    if report.verdict is Status.OK and is_outside(report):
        return "not judged"
    own = _OWN_WORDS.get(report.command, {})
    return own.get(report.verdict, _WORDS[report.verdict])


def machine_words(facts: Facts) -> str:
    """The machine in one line: GPUs, driver, platform."""
    machine = facts.machine
    return ", ".join(
        part
        for part in (
            _gpu_words(facts),
            _driver_words(facts),
            str(machine.host.platform) if machine.host.platform else "platform not known",
            f"glibc {machine.host.glibc}" if machine.host.glibc else "",
            "WSL" if machine.host.is_wsl else "",
        )
        if part
    )


def _gpu_words(facts: Facts) -> str:
    gpus = facts.machine.gpus
    if gpus is None:
        return "GPUs not known"
    if not gpus:
        return "no NVIDIA GPU"
    counts: dict[str, int] = {}
    for gpu in gpus:
        label = f"{gpu.name or 'GPU'} ({gpu.capability or 'capability not known'})"
        counts[label] = counts.get(label, 0) + 1
    return ", ".join(f"{n} x {label}" if n > 1 else label for label, n in counts.items())


def _driver_words(facts: Facts) -> str:
    driver = facts.machine.driver
    if driver.version is None and driver.cuda is None:
        return "no driver" if driver.is_loaded is False else "driver not known"
    api = f"CUDA {driver.cuda}" if driver.cuda else ""
    if driver.version is None:
        return f"driver for {api}"
    return f"driver {driver.version}" + (f" ({api})" if api else "")


def environment_words(facts: Facts) -> str:
    """The environment in one line: torch, Python, how many distributions, where."""
    environment = facts.environment
    if environment is None:
        return "no environment: the machine alone"
    interpreter, torch = environment.interpreter, environment.torch
    parts = []
    if torch is not None:
        backend = torch.backend
        label = torch.version.local if torch.version is not None else None
        kind = f" ({backend.label})" if backend is not None and not label else ""
        parts.append(f"torch {torch.version or '(version not known)'}{kind}")
    if interpreter is not None and interpreter.version is not None:
        parts.append(f"Python {interpreter.version}")
    if environment.distributions:
        count = len(environment.distributions)
        parts.append(f"{count} distribution{'' if count == 1 else 's'}")
    place = environment.document or (interpreter.executable if interpreter else None)
    return ", ".join(parts) + (f" in {place}" if place else "")
