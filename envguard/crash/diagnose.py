"""Log and environment reason together: one report with a cause, or with ranked suspects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import CheckOptions
from envguard.crash.case import Case, Circumstances, make_case
from envguard.crash.exits import normalise_exit
from envguard.crash.rules import RULES
from envguard.crash.rules.model import make_finding
from envguard.crash.summary import crash_summary
from envguard.crash.suspects import suspect_causes
from envguard.crash.together import join_findings
from envguard.crash.trouble import own_exceptions
from envguard.facts.findings import Finding, Status
from envguard.facts.report import Recommendation, Report, make_report
from envguard.judge import judge

if TYPE_CHECKING:
    from envguard.crash.log import Log
    from envguard.facts.facts import Facts
    from envguard.matrix.loader import Matrix


def diagnose(
    log: Log,
    facts: Facts,
    matrix: Matrix,
    known: Circumstances | None = None,
    *,
    notes: tuple[str, ...] = (),
    torch_index: str,
) -> Report:
    """Say why a run died.

    The verdict is ``fail`` when a cause is established, ``unknown`` when it is not and the
    findings are hypotheses, ``ok`` when the log shows nothing wrong.

    Args:
        log: The evidence.
        facts: Machine and environment, as far as stated; may be empty.
        matrix: The tables.
        known: What is known beside the log; None for nothing.
        notes: Remarks on how the facts came together.
        torch_index: Template of the PyTorch index.
    """
    checked = _check(facts, matrix, torch_index)
    judged = checked.facts if checked else facts
    findings = checked.findings if checked else ()
    case = make_case(log, matrix, judged, findings, known or Circumstances())
    reasoned = find_causes(case)
    return make_report(
        "diagnose",
        judged,
        reasoned,
        matrix_version=matrix.manifest.data_version,
        cause_order=matrix.order.causes,
        recommended=_recommended(checked, reasoned, matrix),
        notes=(*log.notes, *notes),
        extra={"crash": crash_summary(case)},
    )


def find_causes(case: Case) -> tuple[Finding, ...]:
    """What is established, or the hypotheses where nothing is; and what the status stands for."""
    found = tuple(dict.fromkeys(finding for rule in RULES for finding in rule(case)))
    found = tuple(sorted(found, key=lambda finding: case.matrix.order.rank(finding.cause)))
    joined = join_findings(case, found)
    if not any(finding.status is Status.FAIL for finding in joined) and not _is_told(case, found):
        known = {finding.cause for finding in joined}
        suspects = tuple(f for f in suspect_causes(case) if f.cause not in known)
        joined = (*joined, *suspects) or (_clean(case),)
    return (*joined, *_decoded(case))


def _is_told(case: Case, found: tuple[Finding, ...]) -> bool:
    """Whether a warning of the log itself says all there is: nothing died of a signal."""
    if case.signal is not None or own_exceptions(case):
        return False
    return any(finding.status is Status.WARN for finding in found)


def _check(facts: Facts, matrix: Matrix, torch_index: str) -> Report | None:
    """What the checks say, where there is anything to check."""
    machine = facts.machine
    stated = machine.gpus or machine.driver.version or machine.driver.cuda
    if facts.environment is None and not stated:
        return None
    return judge(facts, matrix, CheckOptions(), torch_index=torch_index)


def _recommended(
    checked: Report | None, findings: tuple[Finding, ...], matrix: Matrix
) -> Recommendation | None:
    causes = {finding.cause for finding in findings if finding.status is Status.FAIL}
    return checked.recommended if checked and causes & matrix.causes.cured_by_build else None


def _decoded(case: Case) -> tuple[Finding, ...]:
    """What a status that does not look like a signal stands for."""
    code = case.exit_code
    ending = normalise_exit(code, case.table) if code is not None and code > 0 else None
    if ending is None or ending.signal is None:
        return ()
    detail = f"Here {code} is {ending.name}, -{ending.signal}: {ending.means}."
    return (make_finding(case, "exit-code-decoding", Status.OK, detail=detail),)


def _clean(case: Case) -> Finding:
    return Finding(
        code="CRS000",
        cause="log-shows-nothing-wrong",
        status=Status.OK,
        title="the log shows nothing wrong",
        detail=f"{case.log.lines} lines were searched.",
    )
