"""Log and environment reason together: one report with a cause, or with ranked hypotheses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.checks.context import CheckOptions
from envguard.crash.case import Case, Circumstances, make_case, own_exceptions
from envguard.crash.cause_findings import line_evidence, make_finding
from envguard.crash.exits import SIGABRT, SIGILL, SIGKILL, SIGSEGV, SIGTERM, normalise_exit
from envguard.crash.hypotheses import find_hypotheses
from envguard.crash.phases import Phase
from envguard.crash.rules import RULES
from envguard.crash.tried import pass_over_tried
from envguard.facts.findings import Finding, Status
from envguard.facts.report import Recommendation, Report, make_report
from envguard.facts.sentences import join_sentences, say
from envguard.judge import judge
from envguard.matrix.causes import Scope

if TYPE_CHECKING:
    from envguard.crash.log import Log
    from envguard.facts.facts import Facts
    from envguard.matrix.evidence import LauncherRow
    from envguard.matrix.loader import Matrix


def join_findings(case: Case, found: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Put findings of the log and of the checks together.

    A failing check that explains what the log shows stays failing and takes the log's lines as
    evidence; what the log says of the same matter gives way to it, because the check knows the
    versions. A failing check of torch itself that stops every run (no code for the GPU, a driver
    that cannot serve its CUDA) stays failing where the log establishes nothing and does not show
    the run at work. Another that explains nothing in this log is true and not known to be why
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
            ids = _explained_signatures(case, finding.cause)
            if ids:  # possible, said the check; it happened, says the log
                joined.append(_with_lines(case, _came_true(finding), ids))
                replaced |= _same_matter(case, found, finding.cause)
        elif finding.status is Status.FAIL:
            ids = _explained_signatures(case, finding.cause)
            if ids or _explains_exit(case, finding.cause, established):
                joined.append(_with_lines(case, finding, ids))
                replaced |= _same_matter(case, found, finding.cause)
            elif _stops_it_anyway(case, finding, established):
                said = "It stops every run on this GPU, whatever else the log says."
                joined.append(replace(finding, detail=join_sentences(finding.detail, said)))
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


def _explained_signatures(case: Case, cause: str) -> tuple[str, ...]:
    """The signatures in this log that a cause explains."""
    row = case.matrix.causes.cause(cause)
    return tuple(name for name in (row.explains if row else ()) if case.log.has(name))


def _explains_exit(case: Case, cause: str, established: list[Finding]) -> bool:
    """Whether a crash of native code at the start, else unexplained, can come from it."""
    row = case.matrix.causes.cause(cause)
    if established or row is None or not row.crashes_natively:
        return False
    at_start = case.phase in {None, Phase.IMPORT, Phase.INIT}
    return at_start and case.signal in {SIGSEGV, SIGABRT, SIGILL}


_AT_WORK = {Phase.TRAIN, Phase.SAVE, Phase.RESUME, Phase.SHUTDOWN}


def _stops_it_anyway(case: Case, finding: Finding, established: list[Finding]) -> bool:
    """Whether no run on this GPU can work with it, and this log neither says why nor works."""
    row = case.matrix.causes.cause(finding.cause)
    if established or row is None or not row.stops_every_run or finding.package != "torch":
        return False
    return case.phase not in _AT_WORK and case.signal not in {SIGKILL, SIGTERM}


def _with_lines(case: Case, finding: Finding, ids: tuple[str, ...]) -> Finding:
    hits = case.matches(*ids)
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
    did_die = case.root_exit is not None or case.exit_code not in {None, 0}
    if did_die and not established:
        said = "Nothing in this log points to it: repair it, and run the same command again."
        return replace(finding, status=Status.UNKNOWN, detail=join_sentences(finding.detail, said))
    said = "True of the environment, but it does not explain what this log shows."
    return replace(finding, status=Status.WARN, detail=join_sentences(finding.detail, said))


_DOING = {
    Phase.IMPORT: "while it imported",
    Phase.INIT: "while it was set up",
    Phase.LOAD: "while it loaded the model",
    Phase.TRAIN: "while it trained",
    Phase.SAVE: "while it saved a checkpoint",
    Phase.RESUME: "while it read a checkpoint back",
    Phase.SHUTDOWN: "while it ended",
}
_TAIL = 8


def crash_summary(case: Case) -> dict[str, object]:
    """What a reader and a program want to know first.

    Returns:
        ``headline``, the ending, the phase and who says so, the ranks, what to collect next time,
        and the last lines of the log.
    """
    process_exit = case.root_exit
    launcher = find_launcher(case)
    return {
        "headline": headline(case),
        "ending": process_exit.status.text if process_exit else None,
        "signal": process_exit.status.name or None if process_exit else None,
        "stated_by": process_exit.source if process_exit else None,
        "rank": process_exit.rank if process_exit else None,
        "phase": case.phase.value if case.phase else None,
        "phase_from": case.seen.origin or None,
        "ranks": case.ranks,
        "launcher": launcher.name if launcher else None,
        "launcher_hides": launcher.truth if launcher else None,
        "followers": count_followers(case),
        "collect": list(collect_next(case)),
        "log": {
            "name": case.log.name,
            "lines": case.log.lines,
            "bytes": case.log.size,
            "ends_mid_line": case.log.ends_mid_line,
            "tail": [{"line": n, "text": text} for n, text in case.log.tail[-_TAIL:]],
        },
    }


def count_followers(case: Case) -> int:
    """Processes that ended with SIGTERM after the root did: they follow it."""
    pids = {
        process_exit.pid
        for process_exit in case.process_exits[1:]
        if process_exit.status.signal == SIGTERM
    }
    stopped = (name for row in case.table.launchers for name in row.says_stop)
    pids |= {hit.number("pid") for hit in case.log.all(*stopped)}
    pids.discard(None)
    return len(pids - {case.root_exit.pid if case.root_exit else None})


def headline(case: Case) -> str:
    """What died, of what, while doing what: ``rank 3 died of SIGKILL (-9) while it trained``."""
    process_exit = case.root_exit
    doing = f" {_DOING[case.phase]}" if case.phase else ""
    if process_exit is None:
        if case.exit_code == 0:
            return "the program ended with exit status 0"
        if case.exit_code is None and not case.log.has("traceback", "python-exception"):
            return "nothing says how the program ended"
        return say("the program failed{doing}", doing=doing)
    who = (
        say("rank {rank}", rank=process_exit.rank) if process_exit.rank is not None else "a process"
    )
    if process_exit.source in {"--exit-code", "shell"}:
        who = "the program"
    verb = "died of" if process_exit.status.signal is not None else "ended with"
    return say(
        "{who} {verb} {ending}{doing}",
        who=who,
        verb=verb,
        ending=process_exit.status.text,
        doing=doing,
    )


def find_launcher(case: Case) -> LauncherRow | None:
    """The launcher whose words are in the log, and what it does with exit statuses."""
    return next((row for row in case.table.launchers if case.log.has(*row.words)), None)


def collect_next(case: Case) -> tuple[str, ...]:
    """What to keep next time, for an exit that this log does not explain."""
    wanted = ["envguard run -- CMD: phases, memory of each rank, and what the cgroup counted"]
    exit_status = "kill" if case.signal == SIGKILL else "crash"
    has_crashed = case.signal is not None and case.signal != SIGTERM
    wanted.extend(
        f"{tool.name}: {tool.gives}"
        for tool in case.table.tools
        if (has_crashed and exit_status in tool.for_endings)
        or (tool.for_ranks and (case.ranks or 1) > 1)
        or case.log.has(*tool.says)
    )
    if case.log.ends_mid_line:
        wanted.append("the whole log: this one stops in the middle of a line")
    return tuple(wanted)


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


# Says that nothing is said, so that it goes with no other finding.
_UNTOLD = "ending-not-told"


def find_causes(case: Case) -> tuple[Finding, ...]:
    """What is established, or the hypotheses where nothing is; and what the status stands for."""
    found = tuple(dict.fromkeys(finding for rule in RULES for finding in rule(case)))
    found = tuple(sorted(found, key=lambda finding: _rank(case, finding)))
    joined = join_findings(case, tuple(_of_the_end(case, finding) for finding in found))
    joined = tuple(pass_over_tried(case, finding) for finding in joined)
    if not any(finding.status is Status.FAIL for finding in joined) and not _is_accounted_for(
        case, found
    ):
        known = {finding.cause for finding in joined}
        known |= {_UNTOLD} if joined else set()
        hypotheses = tuple(f for f in find_hypotheses(case) if f.cause not in known)
        joined = (*joined, *hypotheses) or (_clean(case),)
    return (*joined, *_decoded(case))


def _of_the_end(case: Case, finding: Finding) -> Finding:
    """A warning that stands in an exception which ended the run is no warning: it is the cause."""
    if finding.status is not Status.WARN or case.exit_code == 0:
        return finding
    lines = {hit.place for hit in own_exceptions(case)}
    is_end = any(evidence.fact in lines for evidence in finding.evidence)
    return replace(finding, status=Status.FAIL) if is_end else finding


_SCOPES = (Scope.NODE, Scope.ENVIRONMENT, Scope.JOB)


def _rank(case: Case, finding: Finding) -> tuple[bool, int, int]:
    """Causes stand in their order; possible ones stand behind, as their rule gives them.

    Of those that the order does not name, the node's come first: what it lacks, a job misses.
    """
    if finding.status is Status.UNKNOWN:
        return True, 0, 0
    row = case.matrix.causes.cause(finding.cause)
    scope = _SCOPES.index(row.scope) if row is not None else len(_SCOPES)
    return False, case.matrix.order.rank(finding.cause), scope


def _is_accounted_for(case: Case, found: tuple[Finding, ...]) -> bool:
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
    exit_status = normalise_exit(code, case.table) if code is not None and code > 0 else None
    if exit_status is None or exit_status.signal is None:
        return ()
    detail = say(
        "Here {code} is {name}, -{signal}: {meaning}.",
        code=code,
        name=exit_status.name,
        signal=exit_status.signal,
        meaning=exit_status.means,
    )
    return (make_finding(case, "exit-code-decoding", Status.OK, detail=detail),)


def _clean(case: Case) -> Finding:
    return Finding(
        code="CRS000",
        cause="log-shows-nothing-wrong",
        status=Status.OK,
        title="the log shows nothing wrong",
        detail=say("{count} lines were searched.", count=case.log.lines),
    )
