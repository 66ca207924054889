"""The report of a smoke test: findings, and the stages beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.version import Version

from envguard.facts.codec import to_dict
from envguard.facts.environment import BuildOrigin, Environment, Interpreter, TorchBuild
from envguard.facts.facts import Facts
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.report import Report, make_report
from envguard.smoke.result import parse_cuda, parse_targets
from envguard.smoke.smoke_findings import accelerator_of, smoke_findings

if TYPE_CHECKING:
    from envguard.facts.machine import Gpu
    from envguard.matrix.loader import Matrix
    from envguard.smoke.result import SmokeResult, StageResult


def smoke_report(result: SmokeResult, matrix: Matrix, gpus: tuple[Gpu, ...] = ()) -> Report:
    """The report: findings, and the stages under ``stages``.

    Args:
        result: What was found.
        matrix: For the causes that the words of a failed stage show, and their order.
        gpus: This machine's, for the NVML index of the one under test; torch knows ordinals.
    """
    return make_report(
        "smoke",
        _facts(result),
        smoke_findings(result, matrix, gpus),
        matrix_version=matrix.manifest.data_version,
        cause_order=matrix.order.causes,
        extra={
            "device": result.device,
            "seconds": round(result.seconds, 3),
            "stages": [_stage_document(stage) for stage in result.stages],
        },
    )


def _stage_document(stage: StageResult) -> dict[str, Any]:
    document: dict[str, Any] = to_dict(stage)
    if stage.seconds is not None:
        document["seconds"] = round(stage.seconds, 3)
    return document


def _facts(result: SmokeResult) -> Facts:
    version = _version(result.detail("import", "torch"))
    torch = None
    if result.detail("import", "torch") is not None:
        torch = TorchBuild(
            version=version,
            accelerator=accelerator_of(result),
            cuda=parse_cuda(result.detail("import", "cuda")),
            origin=BuildOrigin.VERSION_FILE,
            git_version=result.detail("import", "git_version"),
            location=result.detail("import", "path"),
            targets=parse_targets(result) or None,
        )
    python = _version(result.python_version)
    gap = Gap("machine", GapReason.NOT_ASKED, "smoke", "a smoke test asks torch alone")
    environment = Environment(Interpreter(python, result.python), None, torch)
    return Facts(environment=environment, gaps=(gap,))


def _version(text: str | None) -> Version | None:
    try:
        return Version(text or "")
    except ValueError:  # InvalidVersion, or more digits than Python reads
        return None
