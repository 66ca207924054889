"""Versions, compute capabilities and build labels as values that compare correctly."""

from __future__ import annotations

import re
from dataclasses import field
from enum import Enum
from typing import Self

from envguard.values import dataclass

_LONG_NUMBER = re.compile(r"[0-9]{1000}")
_DRIVER = re.compile(r"[1-9][0-9]{1,4}(?:\.[0-9]{1,6}){0,3}", re.ASCII)
_CUDA = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(?:\.[0-9]{1,6}){0,2}", re.ASCII)
_CAPABILITY = re.compile(r"([0-9]{1,2})\.([0-9])", re.ASCII)
_TARGET = re.compile(r"(?:(sm|compute)_)([0-9]{2,3})([af]?)", re.ASCII)
# Two digits were CUDA 7.5 to 9.2; cu12 names a major version only, which is no backend.
_LABEL = re.compile(r"cu([5-9][0-9]|[1-9][0-9]{2,3})", re.ASCII)


def refuse_long_numbers(text: str) -> str:
    """Refuse a requirement, specifier or marker with a number that Python will not compare.

    They are taken apart as texts; only the comparison makes numbers of them, and fails.

    Returns:
        The text.

    Raises:
        ValueError: It holds a thousand digits in a row.

    Source: https://docs.python.org/3/library/stdtypes.html#int-max-str-digits
    """
    if _LONG_NUMBER.search(text):
        raise ValueError("holds a number of a thousand digits")
    return text


@dataclass(frozen=True, slots=True, order=True)
class DriverVersion:
    """The version of an installed NVIDIA driver, e.g. ``550.144.03``; not a CUDA version.

    Args:
        release: The numbers, for comparing.
        text: As the driver prints it; leading zeros matter to a reader.
    """

    release: tuple[int, ...]
    text: str = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a driver version.

        Raises:
            ValueError: The text is not one to four dotted numbers (``N/A``, ``535.x``).
        """
        stripped = text.strip()
        if not _DRIVER.fullmatch(stripped):
            raise ValueError(f"{text!r} is not a driver version such as 535.104.05")
        return cls(tuple(int(part) for part in stripped.split(".")), stripped)

    @property
    def branch(self) -> int:
        """The driver branch: 550 for ``550.144.03``."""
        return self.release[0]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, order=True)
class CudaVersion:
    """A CUDA release as major.minor: of a runtime, a toolkit, or the driver API.

    12.10 is above 12.9, and 12.1 is not 12.10: never a float.
    """

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``12.8`` or ``12.8.1``; patch levels are dropped.

        Raises:
            ValueError: The text is not dotted numbers.
        """
        match = _CUDA.fullmatch(text.strip())
        if not match:
            raise ValueError(f"{text!r} is not a CUDA version such as 12.8")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def from_api(cls, number: int) -> Self:
        """Decode the integer of ``cuDriverGetVersion`` and NVML: 12080 is 12.8."""
        return cls(number // 1000, number % 1000 // 10)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True, order=True)
class ComputeCapability:
    """What a GPU is, e.g. (9, 0) for an H100; not what a build contains."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``9.0``.

        Raises:
            ValueError: The text is not one digit group, a dot and one digit.
        """
        match = _CAPABILITY.fullmatch(text.strip())
        if not match:
            raise ValueError(f"{text!r} is not a compute capability such as 9.0")
        return cls(int(match[1]), int(match[2]))

    @property
    def digits(self) -> str:
        """As in ``sm_90``: the numbers without the dot."""
        return f"{self.major}{self.minor}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class CodeKind(Enum):
    """Whether a code target is machine code or virtual code."""

    CUBIN = "sm"
    PTX = "compute"


@dataclass(frozen=True, slots=True)
class CodeTarget:
    """One thing a build contains code for: ``sm_90``, ``sm_90a``, ``compute_120``.

    Args:
        kind: Machine code or PTX.
        capability: The capability that the code was compiled for.
        suffix: ``a`` (this capability only), ``f`` (this family), or empty.
    """

    kind: CodeKind
    capability: ComputeCapability
    suffix: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``sm_90a`` or ``compute_120``.

        Raises:
            ValueError: The text is none of these forms.
        """
        match = _TARGET.fullmatch(text.strip())
        if not match:
            raise ValueError(f"{text!r} is not a code target such as sm_90 or compute_120")
        digits = match[2]
        capability = ComputeCapability(int(digits[:-1]), int(digits[-1]))
        return cls(CodeKind(match[1]), capability, match[3])

    def __lt__(self, other: CodeTarget) -> bool:
        """Order by capability, then suffix, machine code before PTX."""
        return self._order() < other._order()

    def _order(self) -> tuple[ComputeCapability, str, bool]:
        return self.capability, self.suffix, self.kind is CodeKind.PTX

    def __str__(self) -> str:
        return f"{self.kind.value}_{self.capability.digits}{self.suffix}"


@dataclass(frozen=True, slots=True)
class Backend:
    """Which build of torch: a CUDA release, or ``cpu`` when ``cuda`` is None."""

    cuda: CudaVersion | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a label: ``cpu``, ``cu118``, ``cu128``.

        Raises:
            ValueError: The label belongs to another vendor or is malformed.
        """
        label = text.strip().lower()
        if label == "cpu":
            return cls(None)
        match = _LABEL.fullmatch(label)
        if not match:
            raise ValueError(f"{text!r} is not a backend such as cu128 or cpu")
        digits = match[1]
        if len(digits) == 2:  # cu92
            return cls(CudaVersion(int(digits[0]), int(digits[1])))
        return cls(CudaVersion(int(digits[:2]), int(digits[2:])))

    @property
    def label(self) -> str:
        """The local version label and index folder: ``cu128`` or ``cpu``."""
        return "cpu" if self.cuda is None else f"cu{self.cuda.major}{self.cuda.minor}"

    def __str__(self) -> str:
        return self.label


CPU = Backend(None)
