"""Python packages that do not go together: what they check themselves, and names they lack."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.crash.rules.model import make_finding
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.crash.log import Hit

_REFUSED = "requirement-not-met"
_OF_TRANSFORMERS = frozenset({"transformers", "accelerate", "peft", "trl"})
_DIFFER = "package-versions-differ"
_NEAR = 6


def check_missing_names(case: Case) -> Iterator[Finding]:
    """A name that one installed package imports from another, which does not have it.

    Left out where the name is of torch or numpy, whose own rules know more, and where a module
    imports itself in a circle.
    """
    known = {line for row in case.matrix.breaks.shown_in(case.log.hits) for line in row.shows}
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


def _importer(case: Case, hit: Hit) -> str:
    """The installed package whose line raised: the frame just before; empty when none is near."""
    frames = [f for f in case.log.all("site-frame") if 0 < hit.order - f.order <= _NEAR]
    return frames[-1].groups["package"] if frames else ""
