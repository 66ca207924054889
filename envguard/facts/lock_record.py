"""What envguard writes into its own lock: the machines that the lock was made for."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import Version

from envguard.facts.machine import Platform
from envguard.facts.versions import (
    Backend,
    CodeTarget,
    ComputeCapability,
    CudaVersion,
    DriverVersion,
)


@dataclass(frozen=True, slots=True)
class LockedGpu:
    """A GPU of a machine that the lock was made for."""

    name: str | None = None
    compute_capability: ComputeCapability | None = None


@dataclass(frozen=True, slots=True)
class LockedMachine:
    """A machine that the lock was made for, as far as it was known then.

    Args:
        driver: Driver version.
        cuda_driver: Newest CUDA of that driver.
        glibc: Version of the GNU C library.
        platform: System and processor.
        gpus: None when they were not known.
    """

    driver: DriverVersion | None = None
    cuda_driver: CudaVersion | None = None
    glibc: Version | None = None
    platform: Platform | None = None
    gpus: tuple[LockedGpu, ...] | None = None


@dataclass(frozen=True, slots=True)
class LockRecord:
    """The table ``[tool.envguard]`` of a ``pylock.toml``; keys are the fields' names.

    Args:
        torch: Public version of the torch build.
        backend: Its backend.
        matrix_version: Data version of the matrix that chose it.
        index_url: Where the torch family comes from.
        platform: System and processor that the lock is for.
        python: Python that the lock is for, major and minor.
        glibc: Oldest glibc that the torch build runs on.
        driver_exact: Oldest driver that serves every feature.
        driver_floor: Oldest driver that works through minor-version compatibility.
        driver_fit: Grade that the machines' drivers had: ``exact``, ``same-major`` ...
        code_targets: What the torch build holds code for.
        machines: The machines it was made for; empty when none in particular.
        reasons: Why this build.
        notes: Remarks from the time of locking.
    """

    torch: Version
    backend: Backend
    matrix_version: str = ""
    index_url: str | None = None
    platform: Platform | None = None
    python: Version | None = None
    glibc: Version | None = None
    driver_exact: DriverVersion | None = None
    driver_floor: DriverVersion | None = None
    driver_fit: str | None = None
    code_targets: tuple[CodeTarget, ...] | None = None
    machines: tuple[LockedMachine, ...] = ()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
