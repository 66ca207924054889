"""Why a fact is not known: absence always carries a reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class GapReason(Enum):
    """Why a probe or a text did not give a fact."""

    ABSENT = "absent"
    FORBIDDEN = "forbidden"
    MISMATCH = "mismatch"
    TIMED_OUT = "timed-out"
    CRASHED = "crashed"
    UNREADABLE = "unreadable"
    NOT_ASKED = "not-asked"


@dataclass(frozen=True, slots=True)
class Gap:
    """One fact that is not known.

    Args:
        fact: Dotted name of the fact, e.g. ``machine.driver.version`` or ``machine.gpus``.
        reason: Why it is not known.
        probe: Who looked: ``nvml``, ``libcuda``, ``collect_env``, ``stated`` ...
        detail: One line for a person, possibly empty.
    """

    fact: str
    reason: GapReason
    probe: str
    detail: str = ""
