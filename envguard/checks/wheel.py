"""The wheel family: is torch there, and is it a build for NVIDIA GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import CheckOptions, gpu_words, torch_evidence, torch_words
from envguard.checks.cpu_build import cpu_build_finding
from envguard.facts.environment import Accelerator, BuildOrigin
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.gaps import GapReason
from envguard.matrix.complete import possible_platforms, requirers_of_torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packaging.version import Version

    from envguard.facts.environment import Environment, TorchBuild
    from envguard.facts.facts import Facts
    from envguard.facts.gaps import Gap
    from envguard.matrix.loader import Matrix


def check_torch_present(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """An environment without torch has nothing to judge, and that is said.

    One that could not be read is another matter: what it holds is not known.
    """
    environment = facts.environment
    if environment is None:
        return
    if environment.torch is not None:
        if environment.torch.origin is BuildOrigin.REQUIRED:
            yield _brought_along(environment, environment.torch, matrix)
        return
    unread = next((gap for gap in facts.gaps if _is_unread(gap)), None)
    if unread is not None:
        yield _not_read(unread)
        return
    if environment.distributions is None:
        return
    gap = facts.gap("environment.torch")
    if gap is not None and gap.reason is not GapReason.ABSENT:
        return  # a torch that is there and broken is something to judge
    wanted = dict(requirers_of_torch(environment, matrix)) if environment.is_open else {}
    if len({version.public for version in wanted.values()}) > 1:
        yield _contradicting(wanted)
        return
    where = environment.document or (
        environment.interpreter.executable if environment.interpreter else None
    )
    absent = "is not among the pins" if environment.is_open else "is not installed"
    yield Finding(
        code="WHL001",
        cause="nothing-to-judge",
        status=Status.OK,
        title=f"torch {absent}: there is nothing to judge",
        detail=f"looked at {where}" if where else "",
        package="torch",
    )


def _brought_along(environment: Environment, torch: TorchBuild, matrix: Matrix) -> Finding:
    requirers = ", ".join(dict(requirers_of_torch(environment, matrix)))
    return Finding(
        code="WHL012",
        cause="torch-required-by-pins",
        status=Status.OK,
        title=f"{torch_words(torch)} is judged: {requirers} brings it along",
        detail="The pins name no torch. One that is there already and is kept (--no-deps) has to "
        "be stated.",
        package="torch",
        evidence=torch_evidence(torch),
    )


def _contradicting(wanted: Mapping[str, Version]) -> Finding:
    listed = ", ".join(f"{words} requires torch {version}" for words, version in wanted.items())
    return Finding(
        code="WHL013",
        cause="contradicting-pins",
        status=Status.FAIL,
        title="no torch satisfies all pins",
        detail=f"{listed}. An installer refuses them together; forced, all but one of them are "
        "beside a torch that they were not compiled against.",
        package="torch",
        evidence=tuple(
            Evidence(f"{words.split()[0]}.requires.torch", str(version), "metadata")
            for words, version in wanted.items()
        ),
        remedy=Remedy(
            "pin companions that were released for one torch; `envguard lock` chooses them"
        ),
    )


# Reasons for which an environment that is there could not be read.
_UNREAD = frozenset(
    {GapReason.CRASHED, GapReason.TIMED_OUT, GapReason.UNREADABLE, GapReason.FORBIDDEN}
)


def _is_unread(gap: Gap) -> bool:
    places = {"environment", "environment.interpreter", "environment.distributions"}
    return gap.fact in places and gap.reason in _UNREAD


def _not_read(gap: Gap) -> Finding:
    return Finding(
        code="WHL011",
        cause="environment-not-read",
        status=Status.UNKNOWN,
        title="the environment could not be read",
        detail=f"{gap.detail or gap.reason.value}. What it holds is not known.",
        evidence=(Evidence(gap.fact, gap.reason.value, gap.probe),),
        remedy=Remedy(
            "run that interpreter by hand (`python -c ''`) and repair what it says, or name "
            "another one with --python"
        ),
    )


def check_accelerator(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """A CPU build beside a GPU, and builds for other vendors."""
    torch = facts.environment.torch if facts.environment else None
    if torch is None:
        return
    match torch.accelerator:
        case Accelerator.CPU:
            yield cpu_build_finding(facts, matrix, torch, options)
        case Accelerator.ROCM | Accelerator.XPU | Accelerator.MPS:
            yield _other_accelerator(facts, torch, torch.accelerator)
        case Accelerator.CUDA:
            return
        case None:
            yield _build_not_known(facts, matrix, torch)


def _other_accelerator(facts: Facts, torch: TorchBuild, accelerator: Accelerator) -> Finding:
    """Outside what is judged; but beside NVIDIA GPUs it is certain that none of them is used."""
    gpus = facts.machine.selected_gpus
    beside = f" and uses no NVIDIA GPU: {gpu_words(gpus)}" if gpus else ""
    return Finding(
        code="WHL003",
        cause="other-accelerator",
        status=Status.FAIL if gpus else Status.SKIP,
        title=f"{torch_words(torch)} is a build for {_VENDORS[accelerator]}{beside}",
        detail="envguard judges builds for NVIDIA GPUs and for the CPU; whether this one runs on "
        "other hardware is not judged.",
        gpus=tuple(gpu.index for gpu in gpus),
        package="torch",
        evidence=torch_evidence(torch),
    )


_VENDORS = {
    Accelerator.ROCM: "AMD GPUs (ROCm)",
    Accelerator.XPU: "Intel GPUs (XPU)",
    Accelerator.MPS: "Apple GPUs (MPS)",
}


def _build_not_known(facts: Facts, matrix: Matrix, torch: TorchBuild) -> Finding:
    detail, remedy = _why_not_known(facts, matrix, torch)
    return Finding(
        code="WHL004",
        cause="torch-build-not-known",
        status=Status.UNKNOWN,
        title=f"cannot tell which build {torch_words(torch)} is",
        detail=detail,
        package="torch",
        evidence=torch_evidence(torch),
        remedy=Remedy(remedy),
    )


_READ_IT = "let envguard read the installed one: --python PATH"


def _why_not_known(facts: Facts, matrix: Matrix, torch: TorchBuild) -> tuple[str, str]:
    """What keeps a build from being told, and what would help."""
    version = torch.version
    if version is None:
        is_pinned = facts.environment is not None and facts.environment.document is not None
        pin = "pin it in the file, or lock it (`envguard lock -r FILE`) and check the lock"
        return "Its version is not known.", pin if is_pinned else _READ_IT
    if version.local is not None:
        return (
            f"Its label, {version.local}, names no CUDA release.",
            _READ_IT,
        )
    pin = f"pin it with its label: torch=={version.public}+cu..."
    if matrix.torch.release(version) is None:
        known = [release.version for release in matrix.torch.releases]
        return f"The tables know torch {min(known)} to {max(known)}, not this release.", pin
    platforms = possible_platforms(facts.machine)
    served = {platform: matrix.torch.pypi_backend(version, platform) for platform in platforms}
    listed = ", ".join(f"{build} on {platform}" for platform, build in served.items() if build)
    if len(platforms) > 1 and listed:
        detail = f"PyPI serves another build for each platform: {listed}."
        return detail, f"state the platform: --platform {platforms[0]}"
    return "Neither its version nor its origin names a CUDA release.", pin
