"""The wheel family, second half: is the pinned torch build published for this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import CheckOptions, torch_evidence, torch_words
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.gaps import GapReason
from envguard.facts.machine import OperatingSystem
from envguard.matrix.complete import possible_platforms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.version import Version

    from envguard.facts.environment import TorchBuild
    from envguard.facts.facts import Facts
    from envguard.facts.machine import Platform
    from envguard.matrix.loader import Matrix
    from envguard.matrix.rows import TorchBuildRow, TorchRelease


def _pinned(facts: Facts, matrix: Matrix) -> tuple[TorchBuild, TorchRelease] | None:
    """A torch to be installed, of a release that the tables know.

    What is installed runs, or fails for other reasons; it needs no wheel.
    """
    torch = facts.environment.torch if facts.environment else None
    if torch is None or torch.version is None or not torch.is_to_install:
        return None
    release = matrix.torch.release(torch.version)
    return (torch, release) if release is not None else None


def check_build_published(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """A pinned build that no index holds for the platform."""
    pinned = _pinned(facts, matrix)
    if pinned is None:
        return
    found = [_missing_on(p, *pinned, matrix) for p in possible_platforms(facts.machine)]
    if found[0] is not None and None not in found:  # nowhere, where the platform is not stated
        yield found[0]


def _missing_on(
    platform: Platform, torch: TorchBuild, release: TorchRelease, matrix: Matrix
) -> Finding | None:
    builds = matrix.torch.builds(release.version, platform)
    if not builds:
        return _no_platform(torch, platform, release)
    if torch.backend is not None and not _is_published(torch, release, platform, builds):
        return _no_backend(torch, platform, release, builds)
    return None


def _is_published(
    torch: TorchBuild, release: TorchRelease, platform: Platform, builds: tuple[TorchBuildRow, ...]
) -> bool:
    if platform.system is OperatingSystem.MACOS:
        return torch.cuda is None  # its wheels carry no label, and CUDA is not made for it
    rumoured = release.unverified.get(platform, ())
    return torch.backend in {*(build.backend for build in builds), *rumoured}


def _no_platform(torch: TorchBuild, platform: Platform, release: TorchRelease) -> Finding:
    return Finding(
        code="WHL007",
        cause="no-wheel-for-platform",
        status=Status.FAIL if release.provenance.is_firm else Status.WARN,
        title=f"no wheel of torch {release.version} is published for {platform}",
        detail="pip finds no matching distribution.",
        package="torch",
        evidence=(*torch_evidence(torch), Evidence("host.platform", str(platform), "stated")),
        source=release.provenance.source,
    )


def _no_backend(
    torch: TorchBuild, platform: Platform, release: TorchRelease, builds: tuple[TorchBuildRow, ...]
) -> Finding:
    listed = ", ".join(build.backend.label for build in builds)
    pins = ", ".join(f"torch=={build.label}" for build in builds)
    is_firm = all(build.is_verified for build in builds)
    return Finding(
        code="WHL008",
        cause="resolver-local-version",
        status=Status.FAIL if is_firm else Status.WARN,
        title=f"{torch_words(torch)} does not exist for {platform}",
        detail=f"torch {release.version} is published there as {listed}.",
        package="torch",
        evidence=torch_evidence(torch),
        remedy=Remedy(
            f"pin {'one of ' * (len(builds) > 1)}{pins}, or a release that has this build"
        ),
        source=release.provenance.source,
    )


def _rows(facts: Facts, matrix: Matrix) -> tuple[TorchBuildRow, ...]:
    """The pinned build on every platform that the machine can be; empty where one is missing."""
    pinned = _pinned(facts, matrix)
    backend = pinned[0].backend if pinned else None
    if pinned is None or backend is None:
        return ()
    found = [
        matrix.torch.build(pinned[1].version, backend, platform)
        for platform in possible_platforms(facts.machine)
    ]
    return tuple(row for row in found if row is not None) if None not in found else ()


def check_python_tag(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """The wheels of a pinned build against the Python that is to run it."""
    interpreter = facts.environment.interpreter if facts.environment else None
    tag = interpreter.python_tag if interpreter else None
    rows = _rows(facts, matrix)
    if tag is None or not rows or any(not row.pythons or tag in row.pythons for row in rows):
        return
    torch = facts.environment.torch if facts.environment else None
    named = torch_words(torch) if torch else "torch"
    listed = " ".join(rows[0].pythons)
    python = interpreter.version if interpreter else None
    yield Finding(
        code="WHL009",
        cause="no-wheel-for-python",
        status=Status.FAIL if all(row.is_verified for row in rows) else Status.WARN,
        title=f"no wheel of {named} is published for Python {python} ({tag})",
        detail=f"There are wheels for {listed}. pip says 'no matching distribution found'.",
        package="torch",
        evidence=(
            *(torch_evidence(torch) if torch else ()),
            Evidence("interpreter.version", str(python), "stated"),
        ),
        remedy=Remedy(_python_remedy(tag, rows, matrix)),
        source=rows[0].provenance.source,
    )


def _python_remedy(tag: str, rows: tuple[TorchBuildRow, ...], matrix: Matrix) -> str:
    """Which release has wheels for this Python: the nearest newer one, else the nearest older."""
    backends = {row.backend for row in rows}
    having = sorted(
        {
            build.version
            for build in matrix.torch.builds(platform=rows[0].platform)
            if tag in build.pythons and (build.backend in backends or build.is_on_pypi)
        }
    )
    newer = [version for version in having if version > rows[0].version]
    nearest: Version | None = newer[0] if newer else having[-1] if having else None
    python = f"use a Python of {' '.join(rows[0].pythons)}"
    return f"{python}, or torch {nearest}, which has wheels for {tag}" if nearest else python


def check_c_library(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """The C library that the wheels of a pinned build need against the system's."""
    rows = _rows(facts, matrix)
    torch = facts.environment.torch if facts.environment else None
    if not rows or torch is None:
        return
    glibc = facts.machine.host.glibc
    needed = min((row.glibc for row in rows if row.glibc is not None), default=None)
    gap = facts.gap("machine.host.glibc")
    is_other = gap is not None and gap.reason is GapReason.ABSENT and "musl" in gap.detail
    if needed is None or not (is_other or (glibc is not None and glibc < needed)):
        return
    has = f"glibc {glibc}" if glibc else "another C library (musl)"
    yield Finding(
        code="WHL010",
        cause="glibc-too-old",
        status=Status.FAIL,
        title=f"{torch_words(torch)} needs glibc {needed}, and this system has {has}",
        detail="pip finds no wheel that this system may install.",
        package="torch",
        evidence=(
            *torch_evidence(torch),
            Evidence("host.glibc", str(glibc) if glibc else "absent", "host"),
        ),
        remedy=Remedy(f"use a system or image with glibc {needed} or newer"),
        source=rows[0].provenance.source,
    )
