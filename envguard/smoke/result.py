"""What a smoke test was asked for and what it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from envguard.errors import InputError
from envguard.smoke.endings import Ending
from envguard.smoke.oom import OomCounts
from envguard.smoke.process import Capture


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
        ending: How the child ended.
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
    ending: Ending
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
