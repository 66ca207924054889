"""Looks on while a run goes: keeps its output, follows its phases, samples its memory."""

from __future__ import annotations

import json
import time
from collections import deque
from typing import TYPE_CHECKING

from envguard.crash.log import Log
from envguard.crash.memory_use import RunMemory, add_gpu_reading, add_sample
from envguard.crash.phases import MARKS, parse_phase
from envguard.supervise.guard import PHASES, SAMPLES, SEARCH, Guard
from envguard.supervise.sampling import GpuWatch, Sampler

if TYPE_CHECKING:
    from envguard.crash.phases import Phase
    from envguard.crash.samples import Sample
    from envguard.signatures import SignatureMatch
    from envguard.supervise.output_search import OutputSearch
    from envguard.supervise.run_record import RecordSink


_FASTEST_S, _USUAL_S, _SLOWEST_S = 0.2, 1.0, 5.0
_FIRST_SAMPLES = 10
_QUIET_SAMPLES = 30
_BUSY_PHASES = {"load", "save", "resume"}
_MOVED = 0.02  # of the limit, between two samples
_CPU_SHARE = 0.004  # of one processor, for sampling alone
_BURST_S = 0.5  # of processor time that may be spent before it is earned
_GPU_EVERY_S = 5.0
_LONGEST_NAME = 64
_MOST_BLOCKS = 4096
_BATCH_S, _BATCH_BYTES = 0.25, 1 << 16


class RunWatcher:
    """Implements :class:`envguard.crash.supervise.Watcher` for a record.

    Nothing that fails here reaches the run.

    Args:
        record: Where everything is kept.
        search: Searches the output; None where it is not searched.
        guard: Remembers what failed.
    """

    def __init__(self, record: RecordSink, search: OutputSearch | None, guard: Guard) -> None:
        self._record = record
        self._output_search = search
        self._guard = guard
        self.log = Log("output")
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
        self._fed = deque[tuple[int, float]](maxlen=_MOST_BLOCKS)
        self._fed_lines = 0
        self._said_at = 0.0
        self._phase_size = 0
        self._sampler: Sampler | None = None
        self._gpus: GpuWatch | None = None

    @property
    def phase(self) -> Phase | None:
        """The phase that the program itself named last, or its log did."""
        return parse_phase(self.phase_name)

    @property
    def unsearched_bytes(self) -> int:
        """Output that the search did not get to, because it fell behind."""
        return self._output_search.passed_bytes if self._output_search else 0

    def give_up(self) -> None:
        """There will be no run: leave no process behind."""
        if self._output_search is not None:
            self._output_search.close()

    def started(self, pid: int) -> None:
        """The command runs."""
        self._sampler = self._guard.attempt(SAMPLES, Sampler, pid)
        self._gpus = self._guard.attempt(SAMPLES, GpuWatch, _GPU_EVERY_S)

    def output(self, stream: int, data: bytes, block: bytes) -> bool:
        """Keep what went by and search it; a new phase wants a sample at once."""
        if data:
            self._record.output(data)
        # Lines are searched in batches: one at a time they would cost ten times as much.
        self._waiting += block
        now = time.monotonic()
        if len(self._waiting) < _BATCH_BYTES and now - self._searched_at < _BATCH_S:
            return False
        self._searched_at = now
        self._guard.attempt(SEARCH, self._search)
        return self._is_new

    def left_out(self, size: int) -> None:
        """Output that nobody has read: the search does not know of it."""
        if self._output_search is not None:
            self._output_search.passed_bytes += size

    def _search(self) -> None:
        block, self._waiting = bytes(self._waiting), bytearray()
        if self._output_search is None:
            return
        if block:
            self._fed_lines += block.count(b"\n")
            self._fed.append((self._fed_lines, time.monotonic()))
            self._output_search.feed(block)
        hit = self._output_search.pump()
        self._follow(hit)

    def _follow(self, hit: SignatureMatch | None) -> None:
        """Enter the phase that a line shows, unless a later one is known.

        The search may be behind: what the program itself has said since that line counts.
        """
        if hit is None or hit.order <= self._mark_order:
            return
        self._mark_order = hit.order
        while len(self._fed) > 1 and self._fed[0][0] < hit.order:
            self._fed.popleft()
        if self._fed and self._fed[0][1] >= self._said_at:
            self._enter(MARKS[hit.id].value, "log")

    def _enter(self, name: str, origin: str) -> None:
        if name != self.phase_name:
            self.phase_name, self.phase_origin = name, origin
            self._quiet = 0
            self._is_new = True
            self._record.phase(name, origin)

    def _read_phases(self) -> None:
        """What ``envguard.phase`` wrote since the last time."""
        path = self._record.phase_file
        if path is None:
            return
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
                self._enter(str(json.loads(line)["phase"])[:_LONGEST_NAME], "envguard.phase")
                self._said_at = time.monotonic()
            except (ValueError, KeyError, TypeError, RecursionError):
                continue

    def poll(self) -> bool:
        """Read what ``envguard.phase`` wrote; a new phase wants a sample at once."""
        self._guard.attempt(PHASES, self._read_phases)
        self._guard.attempt(SEARCH, self._search_if_due)
        return self._is_new and self.memory.samples > 0

    def _search_if_due(self) -> None:
        if not self._waiting or time.monotonic() - self._searched_at >= _BATCH_S:
            self._search()

    def tick(self) -> float:
        """Take a sample; gives the seconds until the next."""
        self._guard.attempt(SEARCH, self._search)
        return self._guard.attempt(SAMPLES, self._take_sample) or _USUAL_S

    def _take_sample(self) -> float:
        begun = time.process_time()
        if self._sampler is None:
            return _USUAL_S
        sample = self._sampler.read(relist=self._is_new or self.memory.samples < _FIRST_SAMPLES)
        self._is_new = False
        self._keep(sample)
        for reading in self._gpus.readings() if self._gpus else ():
            self.memory = add_gpu_reading(self.memory, reading)
            self._record.gpus(reading)
        self._spent += time.process_time() - begun
        return max(self._interval(sample), self._pause())

    def _pause(self) -> float:
        """Seconds to wait so that sampling stays within its share; bursts are paid back later."""
        earned = _BURST_S + _CPU_SHARE * (time.monotonic() - self._begun)
        return max(0.0, (self._spent - earned) / _CPU_SHARE)

    def _keep(self, sample: Sample) -> None:
        self.memory = add_sample(self.memory, sample, self.phase_name)
        self._record.sample(sample, self.phase_name)

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

    def finish(self, patience_s: float) -> None:
        """The command has ended: the evidence, and one last sample, for what the cgroup counted.

        Args:
            patience_s: How long to wait for a search that is behind.
        """
        self._guard.attempt(SAMPLES, self._take_last_sample)
        self._guard.attempt(SEARCH, self._finish_search, patience_s)
        self._guard.attempt(PHASES, self._read_phases)

    def _finish_search(self, patience_s: float) -> None:
        self._search()
        if self._output_search is None:
            return
        self.log = self._output_search.finish(patience_s)
        self._follow(self.log.last(*MARKS))
        if self._output_search.failure:
            self._guard.lost[SEARCH] = self._output_search.failure

    def _take_last_sample(self) -> None:
        if self._sampler is not None:
            self._keep(self._sampler.read(relist=True))
        if self._gpus is not None:
            self._gpus.close()
