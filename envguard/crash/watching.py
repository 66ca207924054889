"""Looks on while a run goes: keeps its output, follows its phases, samples its memory."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from envguard.crash.gpu_watch import GpuWatch
from envguard.crash.memory_use import RunMemory, add_gpu_reading, add_sample
from envguard.crash.phases import MARKS, parse_phase
from envguard.crash.record import PHASES, RunWriter
from envguard.crash.sampling import Sample, Sampler
from envguard.crash.scan import Scanner, marks_of

if TYPE_CHECKING:
    from envguard.crash.phases import Phase
    from envguard.matrix.signals_table import SignalsTable

_FASTEST_S, _USUAL_S, _SLOWEST_S = 0.2, 1.0, 5.0
_FIRST_SAMPLES = 10
_QUIET_SAMPLES = 30
_BUSY_PHASES = {"load", "save", "resume"}
_MOVED = 0.02  # of the limit, between two samples
_CPU_SHARE = 0.004  # of one processor, for sampling alone
_BURST_S = 0.5  # of processor time that may be spent before it is earned
_GPU_EVERY_S = 5.0
_BATCH_S, _BATCH_BYTES = 0.25, 1 << 16


class RunWatcher:
    """Implements :class:`envguard.crash.supervise.Watcher` for a record.

    Args:
        writer: Where everything is kept.
        table: What to look for in the output.
    """

    def __init__(self, writer: RunWriter, table: SignalsTable) -> None:
        self._writer = writer
        self._table = table
        self.scanner = Scanner(marks_of(table))
        self.memory = RunMemory()
        self.phase_name = ""
        self.phase_origin = ""
        self._last: Sample | None = None
        self._waiting = bytearray()
        self._searched_at = 0.0
        self._quiet = 0
        self._is_new = True
        self._spent = 0.0
        self._begun = time.monotonic()
        self._mark_order = -1
        self._phase_size = 0
        self._sampler: Sampler | None = None
        self._gpus: GpuWatch | None = None

    @property
    def phase(self) -> Phase | None:
        """The phase that the program itself named last, or its log did."""
        return parse_phase(self.phase_name)

    def started(self, pid: int) -> None:
        """The command runs."""
        self._sampler = Sampler(pid)
        self._gpus = GpuWatch(_GPU_EVERY_S)

    def output(self, stream: int, data: bytes, block: bytes) -> bool:
        """Keep what went by and search it; a new phase wants a sample at once."""
        if data:
            self._writer.output(data)
        # Lines are searched in batches: one at a time they would cost ten times as much.
        self._waiting += block
        now = time.monotonic()
        if len(self._waiting) < _BATCH_BYTES and now - self._searched_at < _BATCH_S:
            return False
        self._searched_at = now
        self._search()
        return self._is_new

    def _search(self) -> None:
        block, self._waiting = bytes(self._waiting), bytearray()
        if not block:
            return
        self.scanner.feed(block, is_closed=block.endswith(b"\n"))
        hit = self.scanner.latest(MARKS)
        if hit is not None and hit.order > self._mark_order:
            self._mark_order = hit.order
            self._enter(MARKS[hit.id].value, "log")

    def _enter(self, name: str, origin: str) -> None:
        if name != self.phase_name:
            self.phase_name, self.phase_origin = name, origin
            self._quiet = 0
            self._is_new = True
            self._writer.phase(name, origin)

    def _read_phases(self) -> None:
        """What ``envguard.phase`` wrote since the last time."""
        path = self._writer.folder / PHASES
        try:
            size = path.stat().st_size
            if size <= self._phase_size:
                return
            with path.open("rb") as file:
                file.seek(self._phase_size)
                data = file.read(1 << 16)
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._phase_size += len(whole)
        for line in whole.splitlines():
            try:
                self._enter(str(json.loads(line)["phase"]), "envguard.phase")
            except (ValueError, KeyError, TypeError):
                continue

    def poll(self) -> bool:
        """Read what ``envguard.phase`` wrote; a new phase wants a sample at once."""
        self._read_phases()
        return self._is_new and self.memory.samples > 0

    def tick(self) -> float:
        """Take a sample; gives the seconds until the next."""
        begun = time.process_time()
        self._search()
        if self._sampler is None:
            return _USUAL_S
        sample = self._sampler.read(relist=self._is_new or self.memory.samples < _FIRST_SAMPLES)
        self._is_new = False
        self._keep(sample)
        for reading in self._gpus.readings() if self._gpus else ():
            self.memory = add_gpu_reading(self.memory, reading)
            self._writer.gpus(reading)
        self._spent += time.process_time() - begun
        return max(self._interval(sample), self._pause())

    def _pause(self) -> float:
        """Seconds to wait so that sampling stays within its share; bursts are paid back later."""
        earned = _BURST_S + _CPU_SHARE * (time.monotonic() - self._begun)
        return max(0.0, (self._spent - earned) / _CPU_SHARE)

    def _keep(self, sample: Sample) -> None:
        self.memory = add_sample(self.memory, sample, self.phase_name)
        self._writer.sample(sample, self.phase_name)

    def _interval(self, sample: Sample) -> float:
        """Short while memory moves or a phase is known to be sharp, longer when nothing does."""
        before, self._last = self._last, sample
        limit = sample.cgroup.limit_bytes or sample.available_bytes or 1 << 40
        moved = before is not None and abs(sample.total_bytes - before.total_bytes) > _MOVED * limit
        if moved or self.phase_name in _BUSY_PHASES:
            self._quiet = 0
            return _FASTEST_S
        if self.memory.samples < _FIRST_SAMPLES:
            return _FASTEST_S
        self._quiet += 1
        return _SLOWEST_S if self._quiet > _QUIET_SAMPLES else _USUAL_S

    def finish(self) -> None:
        """The command has ended: one last sample, for what the cgroup counted."""
        self._search()
        self._read_phases()
        if self._sampler is not None:
            self._keep(self._sampler.read(relist=True))
        if self._gpus is not None:
            self._gpus.close()
