"""The report as JUnit XML: one test case a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.facts.findings import Status
from envguard.printable import printable
from envguard.render.summary import by_gravity, title_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

    from envguard.facts.findings import Finding
    from envguard.facts.report import Report
    from envguard.render.page import Style

# XML 1.0 cannot hold these two even as references; the others that it cannot are never printable.
_FORBIDDEN = str.maketrans("\ufffe\uffff", "??")


def render_junit(report: Report, style: Style) -> str:
    """Render a suite: failures for ``fail``, errors for ``unknown``, skipped for ``skip``."""
    return render_junits([report])


def render_junits(reports: Sequence[Report]) -> str:
    """Render a suite for each report."""
    from xml.etree.ElementTree import Element, indent, tostring

    findings = [finding for report in reports for finding in report.findings]
    root = Element("testsuites", _attributes(f"envguard {reports[0].command}", findings))
    for report in reports:
        _add_suite(root, report)
    indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(root, encoding="unicode")}\n'


def _add_suite(root: Element, report: Report) -> None:
    from xml.etree.ElementTree import SubElement

    suite = SubElement(root, "testsuite", _attributes(title_of(report), report.findings))
    for finding in by_gravity(report.findings):
        name = _clean(f"{finding.code} {finding.title}")
        case = SubElement(suite, "testcase", name=name, classname=f"envguard.{report.command}")
        case.set("time", "0")
        _outcome(case, finding)


def _attributes(name: str, findings: Sequence[Finding]) -> dict[str, str]:
    counts = {status: sum(f.status is status for f in findings) for status in Status}
    return {
        "name": _clean(name),
        "tests": str(len(findings)),
        "failures": str(counts[Status.FAIL]),
        "errors": str(counts[Status.UNKNOWN]),
        "skipped": str(counts[Status.SKIP]),
        "time": "0",
    }


def _outcome(case: Element, finding: Finding) -> None:
    from xml.etree.ElementTree import SubElement

    remedy = f"\nfix: {finding.remedy.text}" if finding.remedy else ""
    text = _clean(f"{finding.detail}{remedy}")
    tag = {Status.FAIL: "failure", Status.UNKNOWN: "error", Status.SKIP: "skipped"}
    if finding.status in tag:
        element = SubElement(case, tag[finding.status], message=_clean(finding.title))
        if finding.status is not Status.SKIP:
            element.set("type", finding.cause)
        element.text = text
    elif finding.status is Status.WARN:
        SubElement(case, "system-out").text = f"warning: {_clean(finding.title)}\n{text}"


def _clean(text: str) -> str:
    return printable(text).translate(_FORBIDDEN)
