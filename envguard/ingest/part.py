"""What one part of a text states, and how a part's words become readings and gaps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from packaging.version import Version

from envguard.facts.facts import Facts
from envguard.facts.versions import CudaVersion, DriverVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# More reports of one kind than this in one text are passed over.
MAX_PARTS = 100


@dataclass(frozen=True, slots=True)
class Part:
    """One report within a text, e.g. the ``nvidia-smi`` table below a ``collect_env``.

    Args:
        line: Number of its first line, from 0.
        facts: What it states; what it lacks although its kind has it is a gap.
        lists_all: Its distributions are all that are installed, not a selection.
    """

    line: int
    facts: Facts
    lists_all: bool = False


def version_or_none(text: str) -> Version | None:
    """A version, or None for anything that is not one."""
    try:
        return Version(text)
    except ValueError:  # InvalidVersion, or a number beyond Python's limit of digits
        return None


def cuda_or_none(text: str) -> CudaVersion | None:
    """A CUDA version, or None for anything that is not one."""
    try:
        return CudaVersion.parse(text)
    except ValueError:
        return None


def driver_or_none(text: str) -> DriverVersion | None:
    """A driver version, or None for anything that is not one."""
    try:
        return DriverVersion.parse(text)
    except ValueError:
        return None


def spans_of(starts: Sequence[int], total: int) -> Iterator[tuple[int, int]]:
    """From each start to the next one, or to the end."""
    return pairwise([*starts, total]) if starts else iter(())
