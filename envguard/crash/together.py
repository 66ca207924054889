"""Join what the log says with what the checks say about the environment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.crash.exits import SIGABRT, SIGILL, SIGSEGV
from envguard.crash.phases import Phase
from envguard.crash.rules.model import line_evidence
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from envguard.crash.case import Case


def join_findings(case: Case, found: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Put findings of the log and of the checks together.

    A failing check that explains what the log shows stays failing and takes the log's lines as
    evidence; what the log says of the same matter gives way to it, because the check knows the
    versions. A failing check that explains nothing in this log is true and not known to be why
    this run died: a hypothesis where nothing else is established and the run did die, else a
    warning. A warning that explains what the log shows came true, and fails. Other warnings,
    what checks could not tell, and what they found in order are left out.

    Args:
        case: With the checks' findings.
        found: The log's findings.
    """
    established = [f for f in found if f.status is Status.FAIL]
    joined: list[Finding] = []
    replaced: set[str] = set()
    # A known break that the log shows says the same, with its lines.
    shown = {(f.code, f.title) for f in established}
    for finding in case.checked:
        if (finding.code, finding.title) in shown:
            continue
        if finding.status is Status.WARN:
            ids = _explained(case, finding.cause)
            if ids:  # possible, said the check; it happened, says the log
                joined.append(_with_lines(case, _came_true(finding), ids))
                replaced |= _same_matter(case, found, finding.cause)
        elif finding.status is Status.FAIL:
            ids = _explained(case, finding.cause)
            if ids or _explains_ending(case, finding.cause, established):
                joined.append(_with_lines(case, finding, ids))
                replaced |= _same_matter(case, found, finding.cause)
            else:
                joined.append(_demoted(case, finding, established))
    kept = [f for f in found if f.cause not in replaced]
    return (*joined, *kept)


_NEED_NOT = "nothing, or "


def _came_true(finding: Finding) -> Finding:
    """A warning that the log bears out: it fails, and doing nothing is no remedy any more."""
    remedy = finding.remedy
    if remedy is not None:
        remedy = replace(remedy, text=remedy.text.removeprefix(_NEED_NOT))
    return replace(finding, status=Status.FAIL, remedy=remedy)


def _explained(case: Case, cause: str) -> tuple[str, ...]:
    """The signatures in this log that a cause explains."""
    row = case.matrix.causes.cause(cause)
    return tuple(name for name in (row.explains if row else ()) if case.log.has(name))


def _explains_ending(case: Case, cause: str, established: list[Finding]) -> bool:
    """Whether a crash of native code at the start, else unexplained, can come from it."""
    row = case.matrix.causes.cause(cause)
    if established or row is None or not row.crashes_natively:
        return False
    at_start = case.phase in {None, Phase.IMPORT, Phase.INIT}
    return at_start and case.signal in {SIGSEGV, SIGABRT, SIGILL}


def _with_lines(case: Case, finding: Finding, ids: tuple[str, ...]) -> Finding:
    hits = case.hits(*ids)
    lines = line_evidence(case, hits)
    return replace(
        finding,
        evidence=(*finding.evidence, *lines),
        line=hits[0].line if hits else finding.line,
    )


def _same_matter(case: Case, found: tuple[Finding, ...], cause: str) -> set[str]:
    """Causes of log findings that are about the same matter as an established check."""
    row = case.matrix.causes.cause(cause)
    same = row.same_matter if row is not None else frozenset()
    return {f.cause for f in found if f.cause == cause or f.cause in same}


def _demoted(case: Case, finding: Finding, established: list[Finding]) -> Finding:
    did_die = case.death is not None or case.exit_code not in {None, 0}
    if did_die and not established:
        said = "Nothing in this log points to it: repair it, and run the same command again."
        return replace(finding, status=Status.UNKNOWN, detail=f"{finding.detail} {said}".strip())
    said = "True of the environment, but it does not explain what this log shows."
    return replace(finding, status=Status.WARN, detail=f"{finding.detail} {said}".strip())
