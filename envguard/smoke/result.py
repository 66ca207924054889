"""A smoke test: its stages, what was asked for, how far it came, what it found."""

from __future__ import annotations

import json
import math
import os
import re
import stat
import time
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import Any

from envguard.errors import InputError
from envguard.facts.versions import CodeKind, CodeTarget, ComputeCapability, CudaVersion
from envguard.smoke.child_exit import ChildExit
from envguard.smoke.limited_process import Capture
from envguard.values import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage; the function of the same name in ``_stages_child.py`` does it.

    Args:
        id: Its name on the command line and in documents.
        title: A few words for a table.
        proves: What is known once it passed.
        needs: Stages that must have passed; they are run even when not asked for.
        limit_s: Seconds it may take. Importing torch from a cold network disk takes minutes.
        is_default: Whether it runs when no stages are named.
    """

    id: str
    title: str
    proves: str
    needs: tuple[str, ...] = ("context",)
    limit_s: float = 60.0
    is_default: bool = True


STAGES = (
    Stage("import", "import torch", "torch and the libraries it links to load", (), 300.0),
    Stage(
        "cuda-init",
        "start CUDA",
        "the driver serves the CUDA runtime of this torch, and the device is there",
        ("import",),
        120.0,
    ),
    Stage(
        "context",
        "first kernel",
        "the device has a context and runs a kernel of this build",
        ("cuda-init",),
        120.0,
    ),
    Stage("allocation", "allocate memory", "memory can be allocated, written and read back"),
    Stage("forward", "forward pass", "a small network computes a finite loss"),
    Stage("backward", "backward pass", "autograd gives every parameter a gradient", ("forward",)),
    Stage("optimizer-step", "optimizer step", "AdamW moves every parameter", ("backward",)),
    Stage(
        "reference",
        "right numbers",
        "loss, gradients and updated weights equal those computed without torch",
        ("optimizer-step",),
    ),
    Stage("bfloat16", "bfloat16 step", "a training step in bfloat16 is right"),
    Stage("float16", "float16 step", "a training step in float16 is right"),
    Stage("matmul", "matrix product", "matrix products are exact (cuBLAS on a GPU)"),
    Stage("convolution", "convolution", "convolutions are right (cuDNN on a GPU)"),
    Stage("attention", "attention", "scaled dot-product attention is right"),
    Stage("checkpoint", "save and load", "a checkpoint comes back equal from torch.load"),
    Stage(
        "compile",
        "torch.compile",
        "a compiler is there (on a GPU triton too) and its code is right",
        limit_s=300.0,
        is_default=False,
    ),
    Stage(
        "distributed",
        "process group",
        "a process group of one reduces (NCCL on a GPU, gloo on the CPU)",
        is_default=False,
    ),
    Stage(
        "all-reduce",
        "all-reduce",
        "all GPUs reduce together under torchrun (two processes with gloo on the CPU)",
        limit_s=180.0,
        is_default=False,
    ),
    Stage(
        "deepspeed",
        "import deepspeed",
        "deepspeed loads beside this torch",
        limit_s=300.0,
        is_default=False,
    ),
    *(
        Stage(
            f"zero-{number}",
            f"DeepSpeed, ZeRO-{number}",
            f"DeepSpeed with ZeRO-{number} starts, steps rightly, saves, and loads what it saved",
            ("deepspeed",),
            300.0,
            is_default=False,
        )
        for number in (1, 2, 3)
    ),
)

# Not asked for and not selectable: whether the interpreter ends cleanly after the last stage.
SHUTDOWN = Stage("shutdown", "shutdown", "the interpreter ends cleanly", (), 60.0)


def choose_stages(names: tuple[str, ...]) -> tuple[Stage, ...]:
    """The stages to run, in running order, with everything that the named ones need.

    Args:
        names: Stage ids; empty for the default set.

    Raises:
        InputError: A name is no stage.
    """
    known = {stage.id: stage for stage in STAGES}
    for name in names:
        if name not in known:
            raise InputError(
                f"no smoke stage is called {name!r}", hint="known stages: " + ", ".join(known)
            )
    wanted = set(names) or {stage.id for stage in STAGES if stage.is_default}
    # A need stands before its stage in STAGES, so one pass backwards collects them all.
    for stage in reversed(STAGES):
        if stage.id in wanted:
            wanted.update(stage.needs)
    return tuple(stage for stage in STAGES if stage.id in wanted)


def find_stage(name: str) -> Stage | None:
    """The stage with this id, or None; ``shutdown`` is found too."""
    return next((stage for stage in (*STAGES, SHUTDOWN) if stage.id == name), None)


def parse_stage_names(text: str) -> tuple[str, ...]:
    """Split ``forward,backward``; empty for an empty text."""
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def describe_stages() -> str:
    """A line for each stage: its name, what it proves, and that it must be asked for."""
    lines = [
        f"{stage.id:<16}{stage.proves}" + ("" if stage.is_default else " (only when asked for)")
        for stage in STAGES
    ]
    return "\n".join(lines) + "\n"


# The child writes a few KiB a stage; more is rubbish from a process gone wild.
_MAX_BYTES = 1024 * 1024
_MOST_LEVELS = 8
_MOST = 1 << 63  # nothing that is measured here, in bytes or seconds, is larger


def clean_text(text: str) -> str:
    """Text without control characters: a terminal would obey the escapes in it."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def read_side_file(path: Path, limit: int, *, offset: int = 0) -> bytes:
    """A piece of a file that the child writes.

    The library under test runs with the rights of the user and may put anything in its place:
    opening a pipe would wait for ever, and a link may lead to what is not its own.

    Args:
        path: The file.
        limit: Bytes, at most.
        offset: Where to begin.

    Returns:
        Empty where there is no regular file, or nothing more in it.
    """
    flags = os.O_RDONLY
    for name in ("O_NONBLOCK", "O_NOFOLLOW", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        handle = os.open(path, flags)
    except OSError:
        return b""
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return b""
        os.lseek(handle, offset, os.SEEK_SET)
        return os.read(handle, limit)
    except OSError:
        return b""
    finally:
        os.close(handle)


def _plain(value: object, levels: int = _MOST_LEVELS) -> Any:
    """A decoded value with clean texts.

    Raises:
        ValueError: It is nested deeper, or a number larger, than anything that is measured.
    """
    if levels == 0:
        raise ValueError("nested too deeply")
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_plain(item, levels - 1) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): _plain(item, levels - 1) for key, item in value.items()}
    if isinstance(value, int | float) and not (math.isfinite(value) and -_MOST < value < _MOST):
        raise ValueError("no number that is measured")
    return value


class ProgressReader:
    """Follows the side file; lines that are no records of ours are counted and left out.

    Args:
        path: The file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._partial = b""
        self.rubbish_lines = 0
        self.ends: dict[str, Mapping[str, Any]] = {}
        self.begins: dict[str, Mapping[str, Any]] = {}
        self.parts: dict[str, str] = {}
        self.start: Mapping[str, Any] = {}
        self.current: str | None = None
        self.since = time.monotonic()

    def read(self) -> None:
        """Take in what was written since the last call."""
        room = _MAX_BYTES - self._offset
        data = read_side_file(self._path, room, offset=self._offset)
        self._offset += len(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            record = _plain(json.loads(line, parse_constant=lambda _: None))
        except (ValueError, RecursionError, OverflowError):  # the last: isfinite of a huge int
            record = None
        if not isinstance(record, dict):
            self.rubbish_lines += 1
            return
        stage = record.get("stage")
        match record.get("event"):
            case "start":
                self.start = record
                self.since = time.monotonic()
            case "begin" if isinstance(stage, str):
                self.current, self.begins[stage] = stage, record
                self.since = time.monotonic()
            case "part" if isinstance(stage, str) and isinstance(record.get("part"), str):
                self.parts[stage] = record["part"]
            case "end" if isinstance(stage, str):
                self.current, self.ends[stage] = None, record
                self.since = time.monotonic()
            case _:
                self.rubbish_lines += 1


_KILLS = re.compile(r"^oom_kill ([0-9]{1,18})$", re.MULTILINE)
_LIMIT_HITS = re.compile(r"^oom ([0-9]{1,18})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OomCounts:
    """What the nearest memory cgroup counts; both 0 where there is none.

    Args:
        kills: Processes that an out-of-memory killer ended, whatever its reason.
        limit_hits: Times that the group's own limit was the reason (cgroup v2 only).
    """

    kills: int = 0
    limit_hits: int = 0

    def since(self, before: OomCounts) -> OomCounts:
        """What was added since an earlier reading."""
        return OomCounts(self.kills - before.kills, self.limit_hits - before.limit_hits)


def read_oom_counts(proc: Path = Path("/proc"), sys_fs: Path = Path("/sys/fs/cgroup")) -> OomCounts:
    """Read the counters of the cgroup that this process, and so its child, is in.

    Source: kernel Documentation/admin-guide/cgroup-v2.rst, ``memory.events``; cgroup-v1/memory.rst,
    ``memory.oom_control``.
    """
    for line in _read(proc / "self" / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if "memory" in controllers.split(","):
            text = _nearest(sys_fs / "memory", group, "memory.oom_control")
        elif number == "0":
            text = _nearest(sys_fs, group, "memory.events")
        else:
            continue
        if _KILLS.search(text):
            return OomCounts(_count(_KILLS, text), _count(_LIMIT_HITS, text))
    return OomCounts()


def _nearest(root: Path, group: str, name: str) -> str:
    """The file in the group's folder; a container often mounts the group itself as the root."""
    return _read(root / group.lstrip("/") / name) or _read(root / name)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _count(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return int(match[1]) if match else 0


_MIB = 2**20


def describe_memory(details: Mapping[str, Any]) -> str:
    """Say by how much saving and loading raised resident memory, beside the state's size.

    Args:
        details: What a stage measured; sizes in bytes.

    Returns:
        ``32 MiB: save +1 MiB, load +32 MiB``; empty where that was not measured.
    """
    sizes = [details.get(key) for key in ("state_bytes", "save_rss_bytes", "load_rss_bytes")]
    if not all(isinstance(size, int) for size in sizes):
        return ""
    state, save, load = (f"{size / _MIB:.0f} MiB" for size in sizes if isinstance(size, int))
    return f"{state}: save +{save}, load +{load}"


@dataclass(frozen=True, slots=True)
class Device:
    """The device asked for: ``auto``, ``cpu`` or ``cuda:N`` (a CUDA ordinal, not NVML's index)."""

    text: str

    @classmethod
    def parse(cls, text: str) -> Device:
        """Read ``auto``, ``cpu``, ``cuda`` (the same as ``cuda:0``) or ``cuda:N``.

        Raises:
            InputError: The text is none of these.
        """
        word = text.strip().lower()
        if word in {"auto", "cpu"}:
            return cls(word)
        kind, _, number = word.partition(":")
        number = number or ("0" if word == "cuda" else "")
        if kind == "cuda" and number.isascii() and number.isdecimal() and len(number) <= 4:
            return cls(f"cuda:{int(number)}")
        raise InputError(f"--device: {text!r} is none of auto, cpu, cuda:N")

    @property
    def is_cuda(self) -> bool:
        """A GPU was asked for by name."""
        return self.text.startswith("cuda")

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class SmokeRequest:
    """What to run.

    Args:
        python: The interpreter.
        device: Where the stages run.
        stages: Stage ids; empty for the default set.
        stage_timeout_s: Seconds for each stage; None for each stage's own limit.
        total_timeout_s: Seconds for all of it.
        output_cap_bytes: How much of the end of stdout and of stderr is kept.
        variables: Environment variables to set besides the inherited ones.
    """

    python: str
    device: Device = Device("auto")
    stages: tuple[str, ...] = ()
    stage_timeout_s: float | None = None
    total_timeout_s: float = 900.0
    output_cap_bytes: int = 65536
    variables: tuple[tuple[str, str], ...] = ()


class StageStatus(Enum):
    """How a stage went."""

    OK = "ok"
    FAIL = "fail"
    SKIP = "skip"
    NOT_REACHED = "not-reached"


class ErrorKind(Enum):
    """In what way a stage failed."""

    EXCEPTION = "exception"
    NUMERICS = "numerics"
    DEVICE = "device"
    SIGNAL = "signal"
    HANG = "hang"
    EXIT = "exit"


@dataclass(frozen=True, slots=True)
class StageError:
    """What a stage failed with.

    Args:
        kind: In what way.
        type: Exception class, signal name, or empty.
        message: The exception's text, or one sentence.
        module: For ImportErrors: the module that was not found.
        frames: Where, innermost last for exceptions and first for crashes and hangs.
    """

    kind: ErrorKind
    type: str
    message: str
    module: str | None = None
    frames: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StageResult:
    """One stage's result.

    Args:
        id: The stage.
        title: A few words for a table.
        status: How it went.
        seconds: Wall time; None when not reached.
        rss_before_bytes: Resident host memory when it began.
        rss_peak_bytes: The highest during it.
        reason: Why it was skipped or not reached.
        details: What it measured.
        error: What it failed with.
        part: The part of the stage that failed (``save``); empty when it has no parts.
        remark: What a passed stage measured, in a few words.
    """

    id: str
    title: str
    status: StageStatus
    seconds: float | None = None
    rss_before_bytes: int | None = None
    rss_peak_bytes: int | None = None
    reason: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    error: StageError | None = None
    part: str = ""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class SmokeResult:
    """All of it.

    Args:
        python: The interpreter that was started.
        python_version: Its version; None when the child never spoke.
        device_asked: ``auto``, ``cpu`` or ``cuda:N``.
        device: Where the stages ran; None when that was not reached.
        stages: In running order.
        child_exit: How the child ended.
        stopped_for: The limit at which it was ended here; empty when it ended by itself.
        seconds: Wall time of all.
        stdout: What the child printed.
        stderr: Likewise.
        oom: Out-of-memory kills in the memory cgroup meanwhile.
    """

    python: str
    python_version: str | None
    device_asked: Device
    device: str | None
    stages: tuple[StageResult, ...]
    child_exit: ChildExit
    stopped_for: str
    seconds: float
    stdout: Capture
    stderr: Capture
    oom: OomCounts = field(default_factory=OomCounts)

    @property
    def is_started(self) -> bool:
        """The child spoke at all."""
        reached = any(stage.status is not StageStatus.NOT_REACHED for stage in self.stages)
        return reached or self.python_version is not None

    def stage(self, name: str) -> StageResult | None:
        """The result of a stage, or None when it was not selected."""
        return next((stage for stage in self.stages if stage.id == name), None)

    def detail(self, stage: str, key: str) -> str | None:
        """A text that a stage measured (``torch``, ``cuda``, ``capability``), or None."""
        found = self.stage(stage)
        value = found.details.get(key) if found else None
        return value if isinstance(value, str) else None


def parse_cuda(text: str | None) -> CudaVersion | None:
    """A CUDA version that torch states, or None."""
    try:
        return CudaVersion.parse(text or "")
    except ValueError:
        return None


def parse_capability(text: str | None) -> ComputeCapability | None:
    """A compute capability that torch states, or None."""
    try:
        return ComputeCapability.parse(text or "")
    except ValueError:
        return None


def parse_targets(result: SmokeResult) -> tuple[CodeTarget, ...]:
    """The code targets that torch states (``torch.cuda.get_arch_list``); empty when unknown."""
    stage = result.stage("cuda-init")
    listed = stage.details.get("targets") if stage else None
    targets = []
    for text in listed if isinstance(listed, list) else ():
        try:
            targets.append(CodeTarget.parse(str(text)))
        except ValueError:
            continue  # another vendor's target
    return tuple(sorted(targets, key=lambda t: (t.kind is CodeKind.PTX, t.capability, t.suffix)))
