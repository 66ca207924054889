"""The record of a run on disk: written so that it can be read whatever killed the writer."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import sys
import time
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from envguard.crash.log import read_blocks
from envguard.crash.memory_use import RunMemory, add_gpu_reading, add_sample
from envguard.crash.samples import CgroupUse, ProcessUse, Sample
from envguard.crash.scan import Scanner, search_patterns_of
from envguard.errors import DocumentError, InputError
from envguard.facts.codec import from_dict
from envguard.facts.facts import Facts, decode_json, facts_document, parse_facts_document
from envguard.files import is_file, is_folder, read_bounded, read_utf8, reason_of
from envguard.redaction import (
    clean_command,
    clean_config,
    clean_text,
    clean_variable,
    is_secret_name,
)
from envguard.supervise.guard import RECORD, Guard
from envguard.supervise.private_files import (
    PrivateFolder,
    RingFile,
    refuse_planted_links,
    ring_parts,
)
from envguard.values import dataclass

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Sequence

    from envguard.crash.log import Log
    from envguard.ingest.plain_text import KeptText
    from envguard.matrix.loader import Matrix


_SUFFIXES = {".json", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".py", ".sh"}
_KEPT = {".json", ".yaml", ".yml", ".toml", ".cfg", ".ini"}
_LARGEST = 2**20
_MOST_FILES = 32
# Variables that change what a run does; those whose name says that they are secret are left out.
_VARIABLES = re.compile(
    r"(?:CUDA|NCCL|TORCH|PYTORCH|OMP|MKL|DS|DEEPSPEED|ACCELERATE|HF|TRANSFORMERS|LD_LIBRARY|"
    r"MASTER|WORLD|SLURM|FSDP|GLOO|UCX|MALLOC|PYTHON)\w*"
)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file that the command names.

    Args:
        path: As the command names it.
        sha256: Of its content.
        size: Bytes.
        text: Its content without secrets, where it is small text that configures; None for scripts.
    """

    path: str
    sha256: str
    size: int
    text: str | None = None


@dataclass(frozen=True, slots=True)
class RunContext:
    """Everything about a run that is known before it starts."""

    command: tuple[str, ...]
    cwd: str = ""
    started_at: str = ""
    files: tuple[ConfigFile, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)


def gather_context(
    command: Sequence[str], environ: Mapping[str, str], facts: Facts, cwd: Path
) -> RunContext:
    """Write down the context of a run, without the secrets that stand in it.

    Args:
        command: Program and arguments.
        environ: Its environment.
        facts: Machine and environment, as probed.
        cwd: Where it is started.
    """
    return RunContext(
        clean_command(command),
        str(cwd),
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        tuple(find_config_files(command, cwd)),
        {k: clean_variable(k, environ[k]) for k in sorted(environ) if is_recorded(k)},
        facts,
    )


def is_recorded(name: str) -> bool:
    """Whether a variable goes into the record."""
    return bool(_VARIABLES.fullmatch(name)) and not is_secret_name(name)


def find_config_files(command: Sequence[str], cwd: Path) -> Iterator[ConfigFile]:
    """The files that a command line names: as words, or behind ``--option=``."""
    found: set[str] = set()
    for word in command[1:]:
        name = word.partition("=")[2] if word.startswith("-") and "=" in word else word
        suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122 - a word is not yet a path
        if suffix not in _SUFFIXES or name in found or len(found) >= _MOST_FILES:
            continue
        item = _read(name, cwd / name, is_kept=suffix in _KEPT)
        if item is not None:
            found.add(name)
            yield item


def _read(name: str, path: Path, *, is_kept: bool) -> ConfigFile | None:
    try:
        if not is_file(path):
            return None
        raw = read_bounded(path, 64 * _LARGEST)
    except InputError:
        return None
    text = None
    if is_kept and len(raw) <= _LARGEST:
        text = clean_config(raw.decode("utf-8", "replace"))
    from hashlib import sha256  # costs 5 ms of start-up: only what is written needs it

    return ConfigFile(clean_text(name), sha256(raw).hexdigest(), len(raw), text)


def interpreter_of(command: Sequence[str], path: str | None) -> str | None:
    """The Python interpreter that a command runs, as far as its first words tell.

    ``python train.py`` names it; ``torchrun``, ``accelerate`` and ``deepspeed`` are scripts whose
    first line does.

    Returns:
        A path; None when the command is something else.
    """
    import shutil

    program = shutil.which(command[0], path=path)
    if program is None:
        return None
    if re.fullmatch(r"python[\d.]*(?:\.exe)?", Path(program).name):
        return program
    try:
        with Path(program).open("rb") as file:
            first = file.readline(512).decode("utf-8", "replace")
    except OSError:
        return None
    match = re.match(r"#!\s*(\S*python[\d.]*)\s*$", first)
    return match[1] if match and is_file(match[1]) else None


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


_PIN = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w,-]*\])?\s*(?:===?|@)\s*\S")
_LOCKS = ("pylock", "requirements", "uv.lock", "poetry.lock", "pdm.lock")


def split_words(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tell logs from the words of the subject: pins and lockfiles."""
    subject = tuple(word for word in words if _is_subject(word))
    return tuple(word for word in words if word not in subject), subject


def _is_subject(word: str) -> bool:
    if _PIN.match(word) and not os.path.lexists(word):
        return True
    name = Path(word).name
    return name.startswith(_LOCKS) and name.endswith((".toml", ".txt", ".lock"))


def find_record(names: Sequence[str]) -> RunRecord | None:
    """The run record among the logs named, or None.

    Raises:
        DocumentError: A folder that is named holds no record.
    """
    folders = [Path(name) for name in names if is_folder(name)]
    return load_record(folders[0]) if folders else None


def read_log(names: Sequence[str], matrix: Matrix, kept: KeptText | None = None) -> Log:
    """Scan the logs named, one after the other.

    Args:
        names: Files, or ``-`` for standard input; none at all is an empty log.
        matrix: What to look for.
        kept: Keeps the text of the files, of a record's output nothing.

    Returns:
        One log; its matches carry the names of the files when there are several.

    Raises:
        InputError: A file cannot be read.
    """
    scanner = Scanner(search_patterns_of(matrix))
    for name in names:
        if len(names) > 1:
            scanner.start_file(_shown(name))
        if name == "-":
            _read_stream(scanner, sys.stdin.buffer, kept)
        elif is_folder(name):
            for part in load_record(Path(name)).output_parts:
                _read_file(scanner, part, None)
        else:
            _read_file(scanner, Path(name), kept)
    return scanner.finish(", ".join(map(_shown, names)) or "no log")


def _shown(name: str) -> str:
    return "standard input" if name == "-" else Path(name).name


def _read_stream(scanner: Scanner, stream: BinaryIO, kept: KeptText | None) -> None:
    for block, is_closed in read_blocks(stream):
        scanner.feed(block, is_closed=is_closed)
        if kept is not None:
            kept.add(block)


def _read_file(scanner: Scanner, path: Path, kept: KeptText | None) -> None:
    try:
        with path.open("rb") as stream:
            if _is_endless(stream):
                raise InputError(f"{path}: is a device, not a log")
            _read_stream(scanner, stream, kept)
    except (OSError, ValueError) as err:
        raise InputError(f"{path}: cannot be read: {reason_of(err)}") from err


def _is_endless(stream: io.BufferedReader) -> bool:
    """Whether it is a device that gives something, as ``/dev/zero`` does for ever."""
    mode = os.fstat(stream.fileno()).st_mode
    is_device = stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
    return is_device and not stream.isatty() and bool(stream.peek(1))


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
