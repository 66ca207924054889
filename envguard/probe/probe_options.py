"""What a probe is told: where to look, in which environment, and for how long."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from envguard.facts.gaps import GapReason
from envguard.values import dataclass

_TEXT_LIMIT = 4 * 1024 * 1024


def _running_environ() -> Mapping[str, str]:
    return dict(os.environ)


def _utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """Where and how to look; the running machine is only the default.

    Args:
        root: Folder that holds ``proc``, ``sys``, ``etc``, ``dev`` and ``usr``.
        environ: Environment variables, recorded and given to every child.
        timeout_s: Seconds that one child may take.
        memory_bytes: What the inspected interpreter may take besides its start; 500 distributions
            need 5 MiB. Kept on Linux alone.
        now: ISO 8601 UTC time of reading.
        all_sources: Ask nvidia-smi too even when NVML answered, and the compilers; slower.
        cuda_init: Also call ``cuInit``, which can take a second on a large machine.
    """

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=_running_environ)
    timeout_s: float = 15.0
    memory_bytes: int = 1 << 30
    now: str = field(default_factory=_utc_now)
    all_sources: bool = False
    cuda_init: bool = False

    def path(self, name: str) -> Path:
        """The place of an absolute system path under the root."""
        return self.root / name.lstrip("/")

    def read(self, name: str) -> str:
        """The text of a system file, at most 4 MiB; undecodable bytes are replaced.

        Args:
            name: Absolute system path.

        Raises:
            OSError: The file is missing, forbidden or unreadable.
        """
        with self.path(name).open("rb") as file:
            return file.read(_TEXT_LIMIT).decode("utf-8", "replace")

    def read_or_none(self, name: str) -> str | None:
        """The text of a system file, or None where its absence needs no explanation."""
        try:
            return self.read(name)
        except OSError:
            return None

    def which(self, program: str) -> str | None:
        """Where a program lies on the PATH of the environment; None when it does not."""
        import shutil

        return shutil.which(program, path=self.environ.get("PATH", os.defpath))


def reason_of(err: OSError) -> GapReason:
    """Why a file could not be read: absent, forbidden or unreadable."""
    if isinstance(err, FileNotFoundError | NotADirectoryError):
        return GapReason.ABSENT
    if isinstance(err, PermissionError):
        return GapReason.FORBIDDEN
    return GapReason.UNREADABLE
