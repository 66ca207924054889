"""Exit statuses, launchers, numbered errors, phases and tools that keep evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from envguard.matrix.rows import Provenance

if TYPE_CHECKING:
    from envguard.matrix.reading import Document, Row


@dataclass(frozen=True, slots=True)
class ExitSignal:
    """A signal that processes die of.

    Args:
        number: Its number.
        name: ``SIGKILL``.
        unsigned: What ``sys.exit(-number)`` gives, as DeepSpeed's launcher does.
        means: What it is.
        usual_causes: Where it usually comes from.
    """

    number: int
    name: str
    unsigned: int
    means: str
    usual_causes: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class ExitStatus:
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
    says_root: tuple[str, ...]
    says_exit: tuple[str, ...]
    says_rank: tuple[str, ...]
    says_stop: tuple[str, ...]
    raises: tuple[str, ...]
    provenance: Provenance

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
class ErrorRow:
    """A numbered error of the driver (Xid), the CUDA runtime or NCCL.

    Args:
        code: Its number.
        name: ``cudaErrorInvalidValue``; empty for an Xid.
        text: Its message.
        kind: ``app``, ``env``, ``hw``, ``link``, ``build`` ...; empty for NCCL.
        note: What it usually is.
        action: NVIDIA's immediate action for an Xid, else empty.
    """

    code: int
    name: str
    text: str
    kind: str
    note: str
    action: str
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
    for_endings: tuple[str, ...]
    for_ranks: bool
    says: tuple[str, ...]
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class SaveMarker:
    """What an unfinished checkpoint folder tells."""

    id: str
    observation: str
    means: str
    provenance: Provenance


class SignalsTable:
    """The rows of ``exits.toml``, ``launchers.toml``, ``errors.toml`` and ``evidence.toml``.

    Args:
        exits: Signals and plain exit statuses.
        launchers: Launchers and schedulers.
        errors: Xids, results of the CUDA runtime and of NCCL.
        evidence: Phases, marks of unfinished checkpoints, tools that keep evidence.

    Raises:
        MatrixError: A row misses a field, or a pattern is none.
    """

    def __init__(
        self, exits: Document, launchers: Document, errors: Document, evidence: Document
    ) -> None:
        self.signals = tuple(_read_signal(row) for row in exits.rows("exit_signal"))
        self.statuses = tuple(_read_status(row) for row in exits.rows("exit_status"))
        self.launchers = tuple(_read_launcher(row) for row in launchers.rows("launcher"))
        self.phases = tuple(_read_phase(row) for row in evidence.rows("phase"))
        self.save_markers = tuple(_read_marker(row) for row in evidence.rows("save_marker"))
        self.tools = tuple(_read_tool(row) for row in evidence.rows("evidence_tool"))
        self.xids = tuple(_read_xid(row) for row in errors.rows("xid"))
        self.cuda_errors = tuple(_read_cuda(row) for row in errors.rows("cuda_error"))
        self.nccl_errors = tuple(_read_nccl(row) for row in errors.rows("nccl_error"))

    def signal(self, number: int) -> ExitSignal | None:
        """A signal by number, or None."""
        return next((row for row in self.signals if row.number == number), None)

    def status(self, code: int) -> ExitStatus | None:
        """A plain exit status, or None."""
        return next((row for row in self.statuses if row.code == code), None)

    def xid(self, code: int) -> ErrorRow | None:
        """An Xid by number, or None."""
        return next((row for row in self.xids if row.code == code), None)

    def cuda_error(self, words: str) -> ErrorRow | None:
        """A CUDA runtime error by its text, name or number, or None.

        The texts of two errors can be alike; the first of the table is given.
        """
        wanted = words.strip().rstrip(".").lower()
        for row in self.cuda_errors:
            if wanted in {row.text.rstrip(".").lower(), row.name.lower(), str(row.code)}:
                return row
        return None

    def nccl_error(self, words: str) -> ErrorRow | None:
        """An NCCL result by the start of its text, or None."""
        wanted = words.strip().lower()
        return next(
            (r for r in self.nccl_errors if wanted.startswith(r.text.partition(" (")[0].lower())),
            None,
        )


def _text(row: Row, field: str) -> str:
    return row.text(field) if row.has(field) else ""


def _texts(row: Row, field: str) -> tuple[str, ...]:
    return row.texts(field) if row.has(field) else ()


def _read_signal(row: Row) -> ExitSignal:
    return ExitSignal(
        row.integer("signal"),
        row.text("name"),
        row.integer("unsigned"),
        row.text("means"),
        row.text("usual_causes"),
        row.provenance(),
    )


def _read_status(row: Row) -> ExitStatus:
    return ExitStatus(
        row.integer("code"), row.text("means"), row.text("usual_causes"), row.provenance()
    )


def _read_launcher(row: Row) -> LauncherRow:
    return LauncherRow(
        name=row.text("name"),
        outer_code=row.text("outer_code"),
        truth=row.text("truth"),
        says_root=_texts(row, "says_root"),
        says_exit=_texts(row, "says_exit"),
        says_rank=_texts(row, "says_rank"),
        says_stop=_texts(row, "says_stop"),
        raises=_texts(row, "raises"),
        provenance=row.provenance(),
    )


def _read_phase(row: Row) -> PhaseRow:
    return PhaseRow(
        row.text("id"),
        row.text("marks"),
        row.text("regex"),
        row.texts("literals"),
        row.provenance(),
    )


def _read_marker(row: Row) -> SaveMarker:
    return SaveMarker(row.text("id"), row.text("observation"), row.text("means"), row.provenance())


def _read_xid(row: Row) -> ErrorRow:
    return ErrorRow(
        row.integer("code"),
        "",
        row.text("meaning"),
        row.text("class"),
        _text(row, "note"),
        _text(row, "action"),
        row.provenance(),
    )


def _read_cuda(row: Row) -> ErrorRow:
    row.flag("sticky", default=False)
    return ErrorRow(
        row.integer("code"),
        row.text("name"),
        row.text("string"),
        row.text("class"),
        _text(row, "note"),
        "",
        row.provenance(),
    )


def _read_nccl(row: Row) -> ErrorRow:
    return ErrorRow(
        row.integer("code"),
        row.text("name"),
        row.text("string"),
        "",
        row.text("means"),
        "",
        row.provenance(),
    )


def _read_tool(row: Row) -> EvidenceTool:
    return EvidenceTool(
        name=row.text("name"),
        gives=row.text("gives"),
        silent_when=row.text("silent_when"),
        for_endings=_texts(row, "for_endings"),
        for_ranks=row.flag("for_ranks", default=False),
        says=_texts(row, "says"),
        provenance=row.provenance(),
    )
