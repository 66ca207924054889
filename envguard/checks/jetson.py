"""A build for ARM servers on a Jetson whose GPU no source lists: the board's model tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.checks.context import CheckOptions, cuda_build, torch_evidence, torch_words
from envguard.facts.environment import BuildOrigin
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.machine import OperatingSystem, Platform
from envguard.matrix.complete import capability_of
from envguard.matrix.fit import grade_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.environment import TorchBuild
    from envguard.facts.facts import Facts
    from envguard.facts.source import Source
    from envguard.matrix.loader import Matrix
    from envguard.matrix.rows import TorchBuildRow

_BOARD = Platform(OperatingSystem.LINUX, "aarch64")


def _is_server_build(torch: TorchBuild) -> bool:
    """From PyPI or the PyTorch index; NVIDIA's builds for Jetson carry no CUDA label."""
    if torch.version is None or torch.version.is_devrelease:
        return False
    local = torch.version.local
    if local is not None:
        return local.startswith("cu")
    is_imported = not torch.is_to_install and torch.origin is not BuildOrigin.METADATA
    return not is_imported and torch.index_url is None


def check_jetson_build(facts: Facts, matrix: Matrix, options: CheckOptions) -> Iterator[Finding]:
    """Code for the board's GPU in a build for servers, where no list of GPUs is known."""
    board, build = facts.machine.host.jetson, cuda_build(facts)
    if not board or facts.machine.gpus or build is None or not _is_server_build(build[0]):
        return
    torch, cuda = build
    row = _row_of(torch, matrix)
    capability, trouble = capability_of(board, matrix)
    if row is None or row.targets is None or capability is None:
        why = trouble or f"the matrix holds no row about what {torch_words(torch)} contains"
        yield _unknown(torch, board, why)
        return
    fit = grade_code(row.targets, capability, cuda, can_jit=None, is_ptx_known=row.is_ptx_known)
    if not fit.grade.runs:
        yield _missing(torch, board, str(capability), row.provenance.source)


def _row_of(torch: TorchBuild, matrix: Matrix) -> TorchBuildRow | None:
    if torch.version is None or torch.backend is None:
        return None
    return matrix.torch.build(torch.version, torch.backend, _BOARD)


def _evidence(torch: TorchBuild, board: str) -> tuple[Evidence, ...]:
    return (*torch_evidence(torch), Evidence("host.jetson", board, "device-tree"))


JETSON_REMEDY = Remedy(
    "install torch from NVIDIA's index for this JetPack release; builds for CUDA 13.2 and later "
    "run on Jetson Orin as they are"
)


def _missing(torch: TorchBuild, board: str, capability: str, source: Source) -> Finding:
    return Finding(
        code="GPU006",
        cause="jetson-needs-l4t-build",
        status=Status.FAIL,
        title=f"{torch_words(torch)} is built for ARM servers and has no code for {board}",
        detail=f"Compute capability {capability} runs only code made for itself. The first kernel "
        "fails with 'no kernel image is available'.",
        package="torch",
        evidence=_evidence(torch, board),
        remedy=JETSON_REMEDY,
        source=source,
    )


def _unknown(torch: TorchBuild, board: str, why: str) -> Finding:
    return Finding(
        code="GPU011",
        cause="arch-not-known",
        status=Status.UNKNOWN,
        title=f"cannot tell whether {torch_words(torch)} runs on this Jetson",
        detail=f"It is a build for ARM servers; {why}.",
        package="torch",
        evidence=_evidence(torch, board),
        remedy=Remedy(f"state --compute-capability; or {JETSON_REMEDY.text}"),
    )
