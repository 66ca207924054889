"""The report as SARIF 2.1.0, for code-scanning services."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from envguard._version import __version__
from envguard.facts.findings import Status, worst_of
from envguard.printable import printable
from envguard.render.summary import by_gravity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from envguard.facts.findings import Finding
    from envguard.facts.report import Report
    from envguard.render.page import Style

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS = {
    Status.FAIL: "error",
    Status.UNKNOWN: "warning",
    Status.WARN: "warning",
    Status.OK: "none",
    Status.SKIP: "none",
}
# A level other than "none" goes with the kind "fail" only (SARIF 2.1.0, 3.27.10).
_KINDS = {
    Status.FAIL: "fail",
    Status.UNKNOWN: "fail",
    Status.WARN: "fail",
    Status.OK: "pass",
    Status.SKIP: "notApplicable",
}


def render_sarif(report: Report, style: Style) -> str:
    """Render one run; results stand at the line of the lockfile where there is one."""
    return render_sarifs([report])


def render_sarifs(reports: Sequence[Report]) -> str:
    """Render one run for all reports: services refuse several runs of a tool in one file."""
    worst = worst_of(report.verdict for report in reports)
    cause = next((r.root_cause for r in reports if r.verdict is worst), None)
    run = {
        "tool": {"driver": _driver(reports)},
        "results": [result for report in reports for result in _results(report)],
        "columnKind": "unicodeCodePoints",
        "properties": {"verdict": worst.value, "rootCause": cause},
    }
    body = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(body, indent=2, ensure_ascii=False)


def _results(report: Report) -> Iterator[dict[str, Any]]:
    environment = report.facts.environment
    document = environment.document if environment is not None else None
    return (_result(finding, document) for finding in by_gravity(report.findings))


def _driver(reports: Sequence[Report]) -> dict[str, Any]:
    causes = {finding.code: finding.cause for one in reports for finding in one.findings}
    return {
        "name": "envguard",
        "version": __version__,
        "rules": [
            {
                "id": code,
                "name": "".join(part.capitalize() for part in cause.split("-")),
                "shortDescription": {"text": cause.replace("-", " ")},
            }
            for code, cause in sorted(causes.items())
        ],
    }


def _result(finding: Finding, document: str | None) -> dict[str, Any]:
    remedy = f"\nFix: {finding.remedy.text}" if finding.remedy else ""
    detail = f"\n{finding.detail}" if finding.detail else ""
    return {
        "ruleId": finding.code,
        "level": _LEVELS[finding.status],
        "kind": _KINDS[finding.status],
        "message": {"text": printable(f"{finding.title}{detail}{remedy}")},
        "locations": [_location(finding, document)],
        "properties": {"cause": finding.cause, "gpus": list(finding.gpus)},
    }


def _location(finding: Finding, document: str | None) -> dict[str, Any]:
    if document is None:
        name = printable(finding.package or "machine")
        return {"logicalLocations": [{"name": name, "kind": "module"}]}
    uri = printable(document).replace("\\", "/")
    place: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if finding.line is not None:
        place["region"] = {"startLine": finding.line}
    return {"physicalLocation": place}
