"""The phases of a training run, and how a log tells which one it was in."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from envguard.crash.scan import PHASE
from envguard.signatures import SignatureMatch
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.crash.log import Log


class Phase(Enum):
    """Where in its life a run was."""

    IMPORT = "import"
    INIT = "init"
    LOAD = "load"
    TRAIN = "train"
    SAVE = "save"
    RESUME = "resume"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True)
class PhaseSeen:
    """The phase of the crash and who says so.

    Args:
        phase: The phase; None when nothing tells.
        origin: ``--phase``, ``log``, ``envguard.phase``.
        match: The line of the log that tells.
    """

    phase: Phase | None = None
    origin: str = ""
    match: SignatureMatch | None = None


# Phases of the table, and signatures of a phase -> phase.
MARKS = {
    f"{PHASE}startup": Phase.INIT,
    f"{PHASE}load": Phase.LOAD,
    f"{PHASE}init_engine": Phase.INIT,
    f"{PHASE}first_step": Phase.TRAIN,
    f"{PHASE}iteration": Phase.TRAIN,
    f"{PHASE}eval": Phase.TRAIN,
    f"{PHASE}save": Phase.SAVE,
    f"{PHASE}resume": Phase.RESUME,
    f"{PHASE}teardown": Phase.SHUTDOWN,
    "life-signs": Phase.TRAIN,
    "phase-load-more": Phase.LOAD,
    "phase-save-done": Phase.SAVE,
    "ds-before-optimizer": Phase.INIT,
    "ds-after-optimizer": Phase.INIT,
}
_STATEMENTS = {"checkpoint-words": Phase.SAVE}


# Names that people and programs give to phases.
_NAMES = {
    "startup": Phase.IMPORT,
    "setup": Phase.INIT,
    "initialize": Phase.INIT,
    "iteration": Phase.TRAIN,
    "step": Phase.TRAIN,
    "eval": Phase.TRAIN,
    "evaluate": Phase.TRAIN,
    "checkpoint": Phase.SAVE,
    "teardown": Phase.SHUTDOWN,
    "exit": Phase.SHUTDOWN,
}


def parse_phase(name: str) -> Phase | None:
    """The phase of a name that a program gave; None for a name that means none of them."""
    word = name.strip().lower()
    if word in _NAMES:
        return _NAMES[word]
    return next((phase for phase in Phase if phase.value == word), None)


def find_phase(log: Log, stated: Phase | None, *, origin: str = "--phase") -> PhaseSeen:
    """Tell the phase of the crash.

    Args:
        log: The evidence.
        stated: What the user or the run record says; wins over the log.
        origin: Who stated it.

    Returns:
        The stated phase; else that of the last mark in the log; else what someone wrote about it.
    """
    if stated is not None:
        return PhaseSeen(stated, origin)
    last = log.last(*MARKS)
    if last is not None:
        return PhaseSeen(MARKS[last.id], "log", last)
    word = log.last(*_STATEMENTS)
    if word is not None:
        return PhaseSeen(_STATEMENTS[word.id], "log", word)
    return PhaseSeen()
