"""What envguard writes into its own lock: the machines that the lock was made for."""

from __future__ import annotations

from packaging.version import Version

from envguard.facts.machine import Platform
from envguard.facts.versions import (
    Backend,
    CodeTarget,
    ComputeCapability,
    CudaVersion,
    DriverVersion,
)
from envguard.values import dataclass


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
        is_wsl: It runs under the Windows Subsystem for Linux.
        compat_libcuda: Path of a forward-compatibility libcuda on it.
    """

    driver: DriverVersion | None = None
    cuda_driver: CudaVersion | None = None
    glibc: Version | None = None
    platform: Platform | None = None
    gpus: tuple[LockedGpu, ...] | None = None
    is_wsl: bool | None = None
    compat_libcuda: str | None = None


@dataclass(frozen=True, slots=True)
class LockedRequest:
    """What was asked, so that the lock can be made again.

    Args:
        requirements: As asked for, sorted.
        constraints: Bounds on whatever came along, sorted.
        backend: The only torch backend that was asked for; None for the best one.
        exact_only: The driver had to be at least the toolkit's own.
        exclude_newer: Packages uploaded after this time did not exist.
        allow_build: Extensions without a prebuilt wheel could be built on the machine.
        glibc: Oldest glibc of the target; None when not known.
        torch_index: Template of the PyTorch index, without credentials; None for the usual one.
        index_url: Index for everything else, without credentials; None for uv's own.
        release_base: Mirror of GitHub for prebuilt wheels, without credentials; None for GitHub.
    """

    requirements: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    backend: Backend | None = None
    exact_only: bool = False
    exclude_newer: str | None = None
    allow_build: bool = False
    glibc: Version | None = None
    torch_index: str | None = None
    index_url: str | None = None
    release_base: str | None = None


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
        is_free_threaded: The Python is the build without the GIL.
        request: What was asked; None in a lock of an older envguard.
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
    is_free_threaded: bool = False
    request: LockedRequest | None = None
