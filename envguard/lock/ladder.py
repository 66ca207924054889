"""The whole ladder as text: every build that was considered, with what speaks for or against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.errors import NetworkError
from envguard.lock.existence import absent_from_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from envguard.backend import Candidate, RejectedBuild
    from envguard.lock.lock_plan import LockPlan
    from envguard.web.client import Web


def ladder_lines(
    candidates: Sequence[Candidate],
    rejected: Sequence[RejectedBuild],
    *,
    chosen: LockPlan | None = None,
    web: Web | None = None,
) -> Iterator[str]:
    """The chosen build, those that serve too, and the others, each with its reasons below it.

    Args:
        candidates: Builds that serve the machines, best first.
        rejected: The others.
        chosen: The plan with the build that was taken; None when none was.
        web: For asking whether the builds that were not tried are there; None to ask nobody.
    """
    if chosen is not None:
        yield f"* {chosen.build.label}: {chosen.why}"
        yield from (f"    {bound.requirement}: {bound.reason}" for bound in chosen.bounds)
        others = [c for c in candidates if c.build != chosen.build]
        yield from (line for c in others for line in _would_serve(c, chosen, web))
    for item in rejected:
        yield f"- {item.build.label}"
        yield from (f"    {reason}" for reason in item.reasons)


def _would_serve(candidate: Candidate, chosen: LockPlan, web: Web | None) -> Iterator[str]:
    """A build that serves too: whether the index has it is asked, not promised."""
    absence, remark = "", ""
    if web is not None:
        try:
            absence = absent_from_index(candidate.build, chosen.request, web)
        except NetworkError as err:
            remark = f"    whether the index has it is not known: {err.message}"
    if absence:
        yield f"- {candidate.build.label}"
        yield f"    {absence}"
        return
    yield f"  {candidate.build.label}: serves the machines too; {candidate.why}"
    if remark:
        yield remark
    elif web is None or web.is_offline:
        yield "    whether the index has it was not asked"
