"""The record of a run as far as it can be kept: a disk that takes no more ends it, not the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envguard.crash.context import RunContext, gather_context
from envguard.crash.guard import RECORD, Guard
from envguard.crash.record import PHASES, RunRecord, RunWriter, open_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from envguard.crash.sampling import Sample
    from envguard.facts.facts import Facts


class RecordSink:
    """Takes what a run record takes; the first failure ends the record and is remembered.

    Args:
        root: Folder of the records.
        guard: Remembers why the record ended.
    """

    def __init__(self, root: Path, guard: Guard) -> None:
        self.root = root
        self._guard = guard
        self._context = RunContext(())
        self._writer: RunWriter | None = guard.attempt(RECORD, open_record, root)

    @property
    def folder(self) -> Path | None:
        """Of this run; None when not even that could be made."""
        return self._writer.folder if self._writer else None

    @property
    def phase_file(self) -> Path | None:
        """Where the job says what it is doing."""
        return self._writer.folder.absolute() / PHASES if self._writer else None

    def begin(
        self, command: Sequence[str], environ: Mapping[str, str], facts: Facts, cwd: Path | None
    ) -> None:
        """Write what is known before the start; what cannot be written is kept in memory."""
        self._context = RunContext(tuple(command), facts=facts)
        found = cwd and self._guard.attempt(RECORD, gather_context, command, environ, facts, cwd)
        if found:
            self._context = found
        if self._writer is not None:
            self._guard.attempt(RECORD, self._writer.begin, self._context)

    def output(self, data: bytes) -> None:
        """Keep what the run printed."""
        if self._writer is not None:
            self._guard.attempt(RECORD, self._writer.output, data)

    def sample(self, sample: Sample, phase: str) -> None:
        """Append a sample."""
        if self._writer is not None:
            self._guard.attempt(RECORD, self._writer.sample, sample, phase)

    def gpus(self, reading: object) -> None:
        """Append a reading of the GPUs."""
        if self._writer is not None:
            self._guard.attempt(RECORD, self._writer.gpus, reading)

    def phase(self, name: str, origin: str) -> None:
        """Append a change of phase."""
        if self._writer is not None:
            self._guard.attempt(RECORD, self._writer.phase, name, origin)

    def end(self, document: Mapping[str, Any]) -> None:
        """Write how it ended, also where the disk was full before and may have room again."""
        if self._writer is not None:
            last = Guard()
            last.attempt(RECORD, self._writer.end, document)
            self._guard.lost = {**last.lost, **self._guard.lost}

    def in_memory(self) -> RunRecord:
        """This run as its record would tell it, without samples and end."""
        return RunRecord(
            self.folder or self.root / "~",  # sorts after all that are there
            self._context.command,
            self._context.facts,
            self._context.started_at,
            {item.path: item.sha256 for item in self._context.files},
            self._context.variables,
        )
