"""The report as SARIF 2.1.0, for code-scanning services."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from envguard._version import __version__
from envguard.facts.findings import Status
from envguard.printable import printable
from envguard.render.summary import by_gravity

if TYPE_CHECKING:
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
    environment = report.facts.environment
    document = environment.document if environment is not None else None
    run = {
        "tool": {"driver": _driver(report)},
        "results": [_result(finding, document) for finding in by_gravity(report.findings)],
        "columnKind": "unicodeCodePoints",
        "properties": {"verdict": report.verdict.value, "rootCause": report.root_cause},
    }
    body = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(body, indent=2, ensure_ascii=False)


def _driver(report: Report) -> dict[str, Any]:
    causes = {finding.code: finding.cause for finding in report.findings}
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
