"""Python packages that do not go together, and combinations that are known to break."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.checks.breaks import break_finding, known_values
from envguard.conditions import break_holds
from envguard.crash.cause_findings import RaisedHypothesis, line_evidence, make_finding
from envguard.facts.findings import Finding, Status
from envguard.facts.sentences import say
from envguard.matrix.causes import Hypothesis, Message, Proof

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.matrix.breaks import Break
    from envguard.signatures import SignatureMatch


_OLD_DEEPSPEED = "DeepSpeed is too old for this torch"


_REFUSED = "requirement-not-met"
_OF_TRANSFORMERS = frozenset({"transformers", "accelerate", "peft", "trl"})
_DIFFER = "package-versions-differ"
_NEAR = 6


def check_missing_names(case: Case) -> Iterator[Finding]:
    """A name that one installed package imports from another, which does not have it.

    Left out where the name is of torch or numpy, whose own rules know more, and where a module
    imports itself in a circle.
    """
    known = {line for row in case.matrix.breaks.shown_in(case.log.matches) for line in row.shows}
    taken = {hit.order for name in known for hit in case.log.all(name)}
    for hit in case.log.all("import-name"):
        owner = hit.groups["module"].partition(".")[0]
        importer = _importer(case, hit)
        if importer in {"", owner} or owner in {"torch", "numpy"} or hit.order in taken:
            continue
        stack = {owner, importer}
        outcome = (
            "transformers-regression" if stack & _OF_TRANSFORMERS else "package-versions-differ"
        )
        groups = {**hit.groups, "owner": owner, "importer": importer}
        yield make_finding(case, outcome, Status.FAIL, (replace(hit, groups=groups),))
        return


def _importer(case: Case, hit: SignatureMatch) -> str:
    """The installed package whose line raised: the frame just before; empty when none is near."""
    frames = [f for f in case.log.all("site-frame") if 0 < hit.order - f.order <= _NEAR]
    return frames[-1].groups["package"] if frames else ""


def check_known_breaks(case: Case) -> Iterator[Finding]:
    """Breaks whose words are in the log and whose versions, as far as known, agree.

    Words that others print too establish a break only where the version of the package that it
    is about is known.
    """
    for row, is_proved in _shown_breaks(case):
        if is_proved:
            yield _finding(case, row)


def hypotheses_of_breaks(case: Case) -> Iterator[RaisedHypothesis]:
    """Breaks whose words are in the log, where versions that would settle it are not known."""
    for row, is_proved in _shown_breaks(case):
        if is_proved:
            continue
        found = _finding(case, row)
        versions = known_values(case.facts).versions
        names = ", ".join(name for name in row.when if name not in versions)
        cure = found.remedy.text if found.remedy else "take other versions"
        raised = Hypothesis(
            id=row.name,
            says="",
            supports="the log shows its words",
            against=say("not known here: the version of {packages}", packages=names),
            experiment=say(
                "compare the versions; if they are those of the break, {cure}", cure=cure
            ),
            command=found.remedy.command if found.remedy else (),
            lines=(*row.shows, *row.frames),
        )
        message = Message(row.name, row.cause, found.code, found.title, row.text, cure)
        yield RaisedHypothesis(raised, message=message)


def _shown_breaks(case: Case) -> Iterator[tuple[Break, bool]]:
    """Breaks that the log shows and nothing known rules out, and whether they are proved."""
    known = known_values(case.facts)
    for row in case.matrix.breaks.shown_in(case.log.matches.keys()):
        if break_holds(row, known, is_shown=True) is False:
            continue
        words = [case.matrix.causes.signature(name) for name in row.shows if case.log.has(name)]
        is_certain = any(word.proves is Proof.CERTAIN for word in words)
        yield row, is_certain or next(iter(row.when), "") in known.versions


def _finding(case: Case, row: Break) -> Finding:
    hits = case.matches(*row.shows, *row.frames)
    found = break_finding(row, known_values(case.facts).versions, case.facts, Status.FAIL)
    evidence = (*found.evidence, *line_evidence(case, hits))
    # What it takes, where it takes something, was used: it happened.
    return replace(found, detail=row.text, evidence=evidence, line=hits[0].line if hits else None)
