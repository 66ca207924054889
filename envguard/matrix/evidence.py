"""Exit statuses, launchers, phases and tools that keep evidence."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from envguard.matrix.rows import Provenance
from envguard.values import dataclass

if TYPE_CHECKING:
    from envguard.matrix.reading import Document


@dataclass(frozen=True, slots=True)
class ExitSignalRow:
    """A signal that processes die of.

    Args:
        number: Its number.
        name: ``SIGKILL``.
        unsigned: What ``sys.exit(-number)`` gives, as DeepSpeed's launcher does.
        means: What it is.
        usual_causes: Where it usually comes from.
    """

    number: int = field(metadata={"key": "signal"})
    name: str
    unsigned: int
    means: str
    usual_causes: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class ExitStatusRow:
    """An exit status that is no signal."""

    code: int
    means: str
    usual_causes: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class LauncherRow:
    """What a launcher does with the exit status of a rank, where the truth is, and its words.

    Args:
        name: Its name.
        outer_code: The status that it ends with itself.
        truth: Where the status of the rank is told.
        says_root: Signatures of the line above the first failure, or that it is known by.
        says_exit: Signatures that tell how a rank ended.
        says_rank: Signatures that name a rank.
        says_stop: Signatures of ranks that it stops because another one failed.
        raises: Its own exceptions, which follow the failure of a rank.
    """

    name: str
    outer_code: str
    truth: str
    provenance: Provenance
    says_root: tuple[str, ...] = ()
    says_exit: tuple[str, ...] = ()
    says_rank: tuple[str, ...] = ()
    says_stop: tuple[str, ...] = ()
    raises: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """All signatures by which it is known."""
        return (*self.says_root, *self.says_exit, *self.says_rank, *self.says_stop)


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A phase of a training run and the lines that mark it."""

    id: str
    marks: str
    regex: str
    literals: tuple[str, ...]
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class EvidenceTool:
    """A tool that would have kept evidence, and when it keeps none.

    Args:
        name: Its name.
        gives: What it keeps.
        silent_when: When it keeps nothing.
        for_endings: ``kill``, ``crash``: the endings of which it keeps evidence.
        for_ranks: It helps where there are several ranks.
        says: Signatures of endings of which it keeps evidence.
    """

    name: str
    gives: str
    silent_when: str
    provenance: Provenance
    for_endings: tuple[str, ...] = ()
    for_ranks: bool = False
    says: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SaveMarker:
    """What an unfinished checkpoint folder tells."""

    id: str
    observation: str
    means: str
    provenance: Provenance


class SignalsTable:
    """The rows of ``exits.toml``, ``launchers.toml`` and ``evidence.toml``.

    Args:
        exits: Signals and plain exit statuses.
        launchers: Launchers and schedulers.
        evidence: Phases, marks of unfinished checkpoints, tools that keep evidence.

    Raises:
        MatrixError: A row misses a field, or a pattern is none.
    """

    def __init__(self, exits: Document, launchers: Document, evidence: Document) -> None:
        self.signals = tuple(row.build(ExitSignalRow) for row in exits.rows("exit_signal"))
        self.statuses = tuple(row.build(ExitStatusRow) for row in exits.rows("exit_status"))
        self.launchers = tuple(row.build(LauncherRow) for row in launchers.rows("launcher"))
        self.phases = tuple(row.build(PhaseRow) for row in evidence.rows("phase"))
        self.save_markers = tuple(row.build(SaveMarker) for row in evidence.rows("save_marker"))
        self.tools = tuple(row.build(EvidenceTool) for row in evidence.rows("evidence_tool"))

    def signal(self, number: int) -> ExitSignalRow | None:
        """A signal by number, or None."""
        return next((row for row in self.signals if row.number == number), None)

    def status(self, code: int) -> ExitStatusRow | None:
        """A plain exit status, or None."""
        return next((row for row in self.statuses if row.code == code), None)
