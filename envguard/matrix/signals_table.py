"""Queries about what crashes leave behind: exit codes, log signatures, phases, error tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.matrix.package_rows import read_specifiers
from envguard.matrix.signal_rows import (
    Discriminator,
    ErrorRow,
    EvidenceTool,
    ExitSignal,
    ExitStatus,
    LauncherRow,
    NativeBug,
    PhaseRow,
    Proof,
    SaveMarker,
    Signature,
)

if TYPE_CHECKING:
    from envguard.matrix.reading import Document, Row


class SignalsTable:
    """The rows of ``signals.toml``.

    Args:
        document: The decoded file.

    Raises:
        MatrixError: A row misses a field, a pattern is none, or a bug names no signature.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.signals = tuple(_read_signal(row) for row in document.rows("exit_code"))
        self.statuses = tuple(_read_status(row) for row in document.rows("exit_plain"))
        self.launchers = tuple(_read_launcher(row) for row in document.rows("launcher"))
        self.signatures = tuple(_read_signature(row) for row in document.rows("signature"))
        self.native_bugs = tuple(_read_bug(row) for row in document.rows("native_bug"))
        self.phases = tuple(_read_phase(row) for row in document.rows("phase"))
        self.save_markers = tuple(_read_marker(row) for row in document.rows("save_marker"))
        self.xids = tuple(_read_xid(row) for row in document.rows("xid"))
        self.cuda_errors = tuple(_read_cuda(row) for row in document.rows("cuda_error"))
        self.nccl_errors = tuple(_read_nccl(row) for row in document.rows("nccl_error"))
        self.discriminators = tuple(_read_decider(r) for r in document.rows("discriminator"))
        self.tools = tuple(_read_tool(row) for row in document.rows("evidence_tool"))
        self._by_id = {row.id: row for row in self.signatures}
        self._refuse_strangers()

    def _refuse_strangers(self) -> None:
        for row, bug in zip(self.document.rows("native_bug"), self.native_bugs, strict=True):
            if bug.signature and bug.signature not in self._by_id:
                raise row.error("signature", f"there is no signature {bug.signature!r}")

    def signature(self, name: str) -> Signature:
        """The signature of this name.

        Raises:
            KeyError: There is none.
        """
        return self._by_id[name]

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


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as err:
        raise ValueError(f"{text!r} is not a pattern: {err}") from err


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
        row.text("name"), row.text("outer_code"), row.text("truth"), row.provenance()
    )


def _read_signature(row: Row) -> Signature:
    return Signature(
        row.text("id"),
        row.text("layer"),
        row.value("regex", _pattern),
        row.texts("literals"),
        row.text("means"),
        row.text("phase"),
        row.value("proves", Proof),
        _text(row, "next"),
        _text(row, "rules_out"),
        row.text("sample"),
        row.provenance(),
    )


def _read_bug(row: Row) -> NativeBug:
    return NativeBug(
        row.text("id"),
        row.integer("signal"),
        _text(row, "signature"),
        row.texts("gpus") if row.has("gpus") else (),
        read_specifiers(row, "when"),
        row.text("cause"),
        row.text("title"),
        row.text("text"),
        row.text("fix"),
        row.texts("command") if row.has("command") else (),
        row.provenance(),
    )


def _read_phase(row: Row) -> PhaseRow:
    return PhaseRow(
        row.text("id"),
        row.text("marks"),
        row.text("first_suspects"),
        row.texts("codes"),
        row.value("regex", _pattern),
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


def _read_decider(row: Row) -> Discriminator:
    return Discriminator(
        row.text("verdict"),
        row.text("exit_form"),
        row.text("decisive"),
        row.text("supporting"),
        row.text("against"),
        row.provenance(),
    )


def _read_tool(row: Row) -> EvidenceTool:
    return EvidenceTool(
        row.text("name"), row.text("gives"), row.text("silent_when"), row.provenance()
    )
