"""The record of a run on disk: written so that it can be read whatever killed the writer."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envguard.crash.cgroup import CgroupUse
from envguard.crash.memory_use import RunMemory, add_gpu_reading, add_sample
from envguard.crash.private_folder import PrivateFolder, refuse_planted_links
from envguard.crash.ring import RingFile, ring_parts
from envguard.crash.sampling import ProcessUse, Sample
from envguard.errors import DocumentError, InputError
from envguard.facts.codec import from_dict
from envguard.facts.facts import Facts, decode_json, facts_document, parse_facts_document
from envguard.files import is_file, read_bounded, read_utf8
from envguard.redaction import clean_command, clean_variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.context import RunContext

SCHEMA_VERSION = 1
_OUTPUT_BYTES = 4 * 2**20
_SAMPLES_BYTES = 2 * 2**20
_MOST_BYTES = 64 * 2**20  # of a file of a record, whoever wrote it
_MOST_NUMBER = 2**62
_RUN, _END, _OUTPUT, _SAMPLES = "run.json", "end.json", "output.log", "samples.jsonl"
PHASES = "phases.jsonl"
_STAMP, _STAMPED = "%Y%m%d-%H%M%S", re.compile(r"\d{8}-\d{6}-")
_LARGEST_STEP = timedelta(days=3650)  # a name from further ahead was not made by a clock


class RunWriter:
    """Writes the record of one run.

    Args:
        folder: Of this run; made here.

    Raises:
        FileExistsError: The folder is there.
        InputError: The folder cannot be made or written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self._files = PrivateFolder(folder)
            self._output = RingFile(self._files, _OUTPUT, _OUTPUT_BYTES)
            self._samples = RingFile(self._files, _SAMPLES, _SAMPLES_BYTES)
            os.close(self._files.open(PHASES, os.O_WRONLY))
        except FileExistsError:
            raise
        except OSError as err:
            raise InputError(f"{folder}: cannot be written: {err.strerror or err}") from err

    def begin(self, context: RunContext) -> None:
        """Write what is known before the start."""
        document = {
            "schema_version": SCHEMA_VERSION,
            "kind": "run",
            "id": self.folder.name,
            "command": list(context.command),
            "cwd": context.cwd,
            "started_at": context.started_at,
            "config_files": [vars_of(item) for item in context.files],
            "variables": dict(context.variables),
            "facts": facts_document(context.facts),
        }
        self._files.write(_RUN, json.dumps(document, indent=1))
        texts = {
            f"{item.sha256[:12]}-{Path(item.path).name}": item.text
            for item in context.files
            if item.text is not None
        }
        if texts:
            kept = PrivateFolder(self.folder / "files")
            for name, text in texts.items():
                kept.write(name, text)
            kept.close()

    def output(self, data: bytes) -> None:
        """Keep what the run printed: its beginning and its end."""
        self._output.write(data)

    def sample(self, sample: Sample, phase: str) -> None:
        """Append a sample."""
        self._samples.write_line(json.dumps(sample_document(sample, phase), separators=(",", ":")))

    def gpus(self, reading: object) -> None:
        """Append a reading of the GPUs."""
        line = {"t": round(time.time(), 2), "gpus": reading}
        self._samples.write_line(json.dumps(line, separators=(",", ":")))

    def phase(self, name: str, origin: str) -> None:
        """Append a change of phase."""
        line = {"t": round(time.time(), 2), "phase": name, "from": origin}
        self._samples.write_line(json.dumps(line, separators=(",", ":")))

    def end(self, document: Mapping[str, Any]) -> None:
        """Write how it ended."""
        body = {"schema_version": SCHEMA_VERSION, "kind": "run-end", **document}
        self._files.write(_END, json.dumps(body, indent=1))
        self._output.close()
        self._samples.close()
        self._files.close()


def vars_of(item: Any) -> dict[str, Any]:
    """A config file's entry in the record."""
    return {"path": item.path, "sha256": item.sha256, "bytes": item.size}


def sample_document(sample: Sample, phase: str) -> dict[str, Any]:
    """A sample as one short JSON object."""
    group = sample.cgroup
    return {
        "t": round(sample.t, 2),
        "in": phase,
        "p": [
            [p.pid, p.rank, p.name, p.rss_bytes, p.shared_bytes, p.pss_bytes]
            for p in sample.processes
        ],
        "cg": [
            group.used_bytes,
            group.limit_bytes,
            group.swap_bytes,
            group.shmem_bytes,
            group.oom_kills,
        ],
        "avail": sample.available_bytes,
        "swap": sample.swap_used_bytes,
        "shm": [sample.shm_used_bytes, sample.shm_bytes],
    }


def parse_sample(line: Mapping[str, Any]) -> tuple[Sample, str]:
    """A sample and its phase from what :func:`sample_document` made.

    Raises:
        TypeError, ValueError, KeyError: The line has another shape.
    """
    processes = tuple(
        ProcessUse(
            _number(p[0]), str(p[1]), str(p[2]), _number(p[3]), *map(_number_or_none, p[4:6])
        )
        for p in line["p"]
    )
    group = CgroupUse(*map(_number_or_none, line["cg"]))
    sizes = map(_number_or_none, (line["avail"], line["swap"], *line["shm"][:2]))
    sample = Sample(float(_number(line["t"])), processes, group, *sizes)
    return sample, str(line["in"])


def _number_or_none(value: Any) -> int | None:
    """A count of bytes or kills; anything else than a number makes the line unusable."""
    return None if value is None else _number(value)


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r:.40} is no number")
    if not abs(value) <= _MOST_NUMBER:  # NaN is not either
        raise ValueError(f"{value!r:.40} is no size")
    return int(value)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as its record tells it.

    Args:
        folder: Where it lies.
        command: Program and arguments.
        facts: Machine and environment before the start.
        started_at: ISO time.
        files: SHA-256 by path of configuration file.
        variables: Environment variables that matter.
        memory: From the samples.
        phase: The last phase; empty when none was seen.
        phase_origin: Who said so.
        end: How it ended; None when envguard itself was killed.
    """

    folder: Path
    command: tuple[str, ...] = ()
    facts: Facts = field(default_factory=Facts)
    started_at: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    memory: RunMemory = field(default_factory=RunMemory)
    phase: str = ""
    phase_origin: str = ""
    end: Mapping[str, Any] | None = None

    @property
    def lost(self) -> tuple[str, ...]:
        """What of envguard's own work failed during the run, in words."""
        said = self.end.get("lost") if self.end else None
        return (
            tuple(f"{part}: {why}" for part, why in said.items()) if isinstance(said, dict) else ()
        )

    @property
    def worked(self) -> bool:
        """Whether it ended with status 0."""
        return self.end is not None and self.end.get("status") == 0

    @property
    def output_parts(self) -> tuple[Path, ...]:
        """What it printed: the files in order."""
        return tuple(ring_parts(self.folder, _OUTPUT))


def is_record(path: Path) -> bool:
    """Whether a folder is the record of a run."""
    return is_file(path / _RUN)


@dataclass(frozen=True, slots=True)
class _ConfigEntry:
    """A configuration file as ``run.json`` names it."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class _RunDocument:
    """What ``run.json`` holds besides the facts, typed."""

    command: tuple[str, ...] = ()
    started_at: str = ""
    config_files: tuple[_ConfigEntry, ...] = ()
    variables: dict[str, Any] = field(default_factory=dict)


def load_record(folder: Path, *, with_samples: bool = True) -> RunRecord:
    """Read a record, also one whose writer was killed.

    Args:
        folder: Of the run.
        with_samples: Read how its memory went as well.

    Raises:
        DocumentError: The folder holds no record, or ``run.json`` is none.
    """
    try:
        return _read_record(folder, with_samples=with_samples)
    except (OSError, TypeError, ValueError, KeyError, AttributeError, RecursionError) as err:
        raise DocumentError(f"{folder}: is not a record of a run: {err}") from err


def _read_record(folder: Path, *, with_samples: bool) -> RunRecord:
    where = str(folder / _RUN)
    document = _load(folder / _RUN)
    if not isinstance(document, dict) or document.get("kind") != "run":
        raise DocumentError(f"{where}: not the record of a run")
    run = from_dict(_RunDocument, document, where)
    end = _load(folder / _END) if is_file(folder / _END) else None
    memory, phase, origin = _fold(folder) if with_samples else (RunMemory(), "", "")
    return RunRecord(
        folder,
        clean_command(run.command),
        parse_facts_document(document.get("facts"), where),
        run.started_at,
        {item.path: item.sha256 for item in run.config_files},
        _clean_variables(run.variables),
        memory,
        phase,
        origin,
        end if isinstance(end, dict) else None,
    )


def _clean_variables(variables: Mapping[str, object]) -> dict[str, str]:
    """Variables of a record; those of earlier versions hold what is cut now."""
    return {str(k): clean_variable(str(k), str(v)) for k, v in variables.items()}


def _load(path: Path) -> object:
    try:
        return decode_json(read_utf8(path, _MOST_BYTES), str(path))
    except DocumentError:
        raise
    except InputError as err:
        raise DocumentError(err.message) from err


def _lines(folder: Path) -> Iterator[Mapping[str, Any]]:
    """The lines of the samples; a last one that was cut is left out."""
    for part in ring_parts(folder, _SAMPLES):
        for raw in read_bounded(part, _MOST_BYTES).splitlines():
            try:
                line = json.loads(raw)
            except (ValueError, RecursionError):
                continue
            if isinstance(line, dict):
                yield line


def _fold(folder: Path) -> tuple[RunMemory, str, str]:
    memory, phase, origin = RunMemory(), "", ""
    for line in _lines(folder):
        if "phase" in line:
            phase, origin = str(line["phase"]), str(line.get("from", ""))
        elif "gpus" in line:
            memory = add_gpu_reading(memory, line["gpus"])
        else:
            try:
                memory = add_sample(memory, *parse_sample(line))
            except (KeyError, TypeError, ValueError, IndexError):
                continue
    return memory, phase, origin


def list_records(root: Path) -> tuple[Path, ...]:
    """The records below a folder, the oldest first."""
    try:
        return tuple(sorted(path for path in root.iterdir() if is_record(path)))
    except OSError:
        return ()


def open_record(root: Path) -> RunWriter:
    """Begin the record of a run that starts now.

    Args:
        root: Folder of the records; made where it is missing.

    Raises:
        InputError: It cannot be written, or is a link that another user put there.
    """
    refuse_planted_links(root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        stamp, number = _next_stamp(root), os.getpid()
        # Nodes, or containers, that share the folder may agree in second and process number.
        for name in (f"{stamp}-{number}", *(f"{stamp}-{number}-{n}" for n in range(1, 100))):
            with contextlib.suppress(FileExistsError):
                return RunWriter(root / name)
    except OSError as err:
        raise InputError(f"{root}: cannot be written: {err.strerror or err}") from err
    raise InputError(f"{root}: holds 100 runs of this second already")


def _next_stamp(root: Path) -> str:
    """The time as names of records begin with it: later than all that are there.

    Runs are told apart by the order of their names, so a clock that was set back must not put a
    new run before an old one.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    stamps = [path.name[:15] for path in root.iterdir() if _STAMPED.match(path.name)]
    with contextlib.suppress(ValueError):
        last = datetime.strptime(max(stamps), _STAMP).replace(tzinfo=UTC)
        if now <= last < now + _LARGEST_STEP:
            now = last + timedelta(seconds=1)
    return now.strftime(_STAMP)
