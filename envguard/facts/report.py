"""The report envelope that check, diagnose, smoke and plan share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from envguard._version import __version__
from envguard.errors import ExitCode
from envguard.facts.codec import to_dict
from envguard.facts.facts import Facts
from envguard.facts.findings import Finding, Status, root_cause_of, verdict_of, worst_of
from envguard.values import dataclass

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The torch build that would fit.

    Args:
        torch: Public version.
        backend: Label, ``cu126``.
        index_url: Where it lies.
        why: One sentence.
        command: An install command for the subject's package manager.
    """

    torch: str
    backend: str
    index_url: str
    why: str
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """One answer, whatever the command and format.

    Args:
        command: ``check``, ``smoke``, ``diagnose`` or ``plan``.
        matrix_version: Data version of the matrix.
        verdict: Worst status of the findings.
        root_cause: Cause that explains the others; None when ok or unknown.
        findings: All findings.
        facts: What the answer rests on.
        recommended: What would fit; None when nothing better is known or needed.
        notes: Remarks for the reader (what was filled in, what overrode what).
        extra: Further top-level members of the JSON document (``peaks``, ``stages`` ...).
    """

    command: str
    matrix_version: str
    verdict: Status
    root_cause: str | None
    findings: tuple[Finding, ...]
    facts: Facts
    recommended: Recommendation | None = None
    notes: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


def make_report(
    command: str,
    facts: Facts,
    findings: tuple[Finding, ...],
    *,
    matrix_version: str,
    cause_order: tuple[str, ...],
    recommended: Recommendation | None = None,
    notes: tuple[str, ...] = (),
    extra: Mapping[str, Any] | None = None,
) -> Report:
    """Put findings into the envelope; verdict and root cause are derived from them.

    Args:
        command: Name of the command.
        facts: What was judged.
        findings: All findings.
        matrix_version: Data version of the matrix.
        cause_order: Causes, the most fundamental first.
        recommended: What would fit.
        notes: Remarks for the reader.
        extra: Further members of the JSON document.
    """
    return Report(
        command=command,
        matrix_version=matrix_version,
        verdict=verdict_of(findings),
        root_cause=root_cause_of(findings, cause_order),
        findings=findings,
        facts=facts,
        recommended=recommended,
        notes=notes,
        extra=extra or {},
    )


def report_document(report: Report) -> dict[str, Any]:
    """The JSON document of a report, with ``schema_version`` first."""
    body = to_dict(report.facts)
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "envguard", "version": __version__},
        "matrix": {"version": report.matrix_version},
        "command": report.command,
        "verdict": report.verdict.value,
        "root_cause": report.root_cause,
        "findings": to_dict(report.findings),
        "recommended": to_dict(report.recommended),
        **{key: to_dict(value) for key, value in report.extra.items()},
        "notes": list(report.notes),
        "facts": {k: v for k, v in body.items() if k != "gaps"},
        "gaps": body["gaps"],
    }


def reports_document(reports: Sequence[Report]) -> dict[str, Any]:
    """The JSON document of several files: the worst verdict, and under ``reports`` one of each.

    Args:
        reports: At least one, all of one command and matrix.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "envguard", "version": __version__},
        "matrix": {"version": reports[0].matrix_version},
        "command": reports[0].command,
        "verdict": worst_of(report.verdict for report in reports).value,
        "reports": [report_document(report) for report in reports],
    }


def exit_code_of(verdict: Status, *, fail_on: Status = Status.FAIL) -> ExitCode:
    """The exit code of a verdict.

    Args:
        verdict: The verdict.
        fail_on: ``WARN`` also turns warnings into failures, ``UNKNOWN`` also turns
            could-not-tell into one; ``FAIL`` leaves both as they are.
    """
    match verdict:
        case Status.FAIL:
            return ExitCode.DOES_NOT_FIT
        case Status.UNKNOWN:
            failing = fail_on in {Status.UNKNOWN, Status.WARN}
            return ExitCode.DOES_NOT_FIT if failing else ExitCode.COULD_NOT_TELL
        case Status.WARN:
            return ExitCode.DOES_NOT_FIT if fail_on is Status.WARN else ExitCode.FITS
        case Status.OK | Status.SKIP:
            return ExitCode.FITS
