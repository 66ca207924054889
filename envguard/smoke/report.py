"""Findings and the report of a smoke test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version

from envguard.facts.codec import to_dict
from envguard.facts.environment import (
    Accelerator,
    BuildOrigin,
    Environment,
    Interpreter,
    TorchBuild,
)
from envguard.facts.facts import Facts
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.gaps import Gap, GapReason
from envguard.facts.report import Report, make_report
from envguard.smoke.causes import Cause, find_cause, parse_cuda, parse_targets
from envguard.smoke.result import ErrorKind, SmokeResult, StageError, StageResult, StageStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

_CODES = {
    ErrorKind.EXCEPTION: "SMK001",
    ErrorKind.SIGNAL: "SMK002",
    ErrorKind.HANG: "SMK003",
    ErrorKind.NUMERICS: "SMK004",
    ErrorKind.EXIT: "SMK006",
    ErrorKind.DEVICE: "SMK008",
}
_WORDS_LIMIT = 400
_LAST_LINES = 6

# Fundamental first: what stops a later stage stands before what it causes there.
CAUSE_ORDER = (
    "torch-missing",
    "cpu-wheel-selected",
    "no-gpu-visible",
    "driver-too-old-for-cuda-major",
    "driver-too-old-for-cuda",
    "arch-missing-old-gpu",
    "arch-missing-new-gpu",
)


def smoke_findings(result: SmokeResult) -> tuple[Finding, ...]:
    """All findings: one for each way in which stages failed, or one that says all went well."""
    if result.python_version is None:
        return (_not_started(result),)
    failed = tuple(_failures(result))
    if not failed and not any(s.status is StageStatus.OK for s in result.stages):
        return (_no_result(result),)
    remarks = (*_skipped(result), *_other_vendor(result))
    return (*(failed or (_passed(result),)), *remarks)


def smoke_report(result: SmokeResult, *, matrix_version: str = "") -> Report:
    """The report: findings, and the stages under ``stages``.

    Args:
        result: What was found.
        matrix_version: Data version, for the envelope; a smoke test itself asks no table.
    """
    return make_report(
        "smoke",
        _facts(result),
        smoke_findings(result),
        matrix_version=matrix_version,
        cause_order=CAUSE_ORDER,
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
            accelerator=_accelerator(result),
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
    except InvalidVersion:
        return None


def _accelerator(result: SmokeResult) -> Accelerator:
    if result.detail("import", "hip"):
        return Accelerator.ROCM
    if result.detail("import", "xpu"):
        return Accelerator.XPU
    return Accelerator.CUDA if result.detail("import", "cuda") else Accelerator.CPU


def _torch_words(result: SmokeResult) -> str:
    version = result.detail("import", "torch")
    return f"torch {version}" if version else "torch"


def _where(result: SmokeResult) -> str:
    name = result.detail("cuda-init", "name")
    device = result.device or result.device_asked.text
    return f"{device} ({name})" if name and device.startswith("cuda") else device


def _passed(result: SmokeResult) -> Finding:
    count = sum(stage.status is StageStatus.OK for stage in result.stages)
    words = _torch_words(result)
    return Finding(
        code="SMK000",
        cause="smoke-passed",
        status=Status.OK,
        title=f"{words} passed {count} stages on {_where(result)} in {result.seconds:.1f} s",
        package="torch",
        evidence=_subject_evidence(result),
    )


def _failures(result: SmokeResult) -> Iterator[Finding]:
    """One finding for each failure; stages that failed with the same words are one."""
    groups: dict[tuple[str, str], list[StageResult]] = {}
    for stage in result.stages:
        if stage.status is StageStatus.FAIL:
            error = stage.error or StageError(ErrorKind.EXCEPTION, "", "")
            groups.setdefault((error.type, error.message), []).append(stage)
    for stages in groups.values():
        yield _failure(result, stages)


def _failure(result: SmokeResult, stages: list[StageResult]) -> Finding:
    first = stages[0]
    error = first.error or StageError(ErrorKind.EXCEPTION, "", "no words")
    cause = find_cause(result, first)
    names = ", ".join(stage.id for stage in stages)
    return Finding(
        code="SMK007" if cause.slug == "torch-missing" else _CODES[error.kind],
        cause=cause.slug,
        status=Status.FAIL,
        title=_title(result, names, error, cause),
        detail=cause.detail,
        package="torch",
        evidence=(*_error_evidence(result, names, error), *_subject_evidence(result)),
        remedy=Remedy(cause.remedy) if cause.remedy else None,
    )


def _title(result: SmokeResult, names: str, error: StageError, cause: Cause) -> str:
    first_line = error.message.strip().partition("\n")[0][:_WORDS_LIMIT]
    if cause.slug == "torch-missing":
        return f"torch is not installed in {result.python}"
    match error.kind:
        case ErrorKind.EXCEPTION:
            return f"{names}: {error.type}: {first_line}"
        case ErrorKind.SIGNAL | ErrorKind.HANG | ErrorKind.EXIT:
            return f"{names}: {first_line}"
        case ErrorKind.NUMERICS:
            return f"{names}: wrong numbers: {first_line}"
        case ErrorKind.DEVICE:
            return f"{result.device_asked} is not available: {first_line}"


def _error_evidence(result: SmokeResult, names: str, error: StageError) -> Iterator[Evidence]:
    yield Evidence("smoke.stage", names, "smoke")
    if error.type:
        fact = "smoke.signal" if error.kind is ErrorKind.SIGNAL else "smoke.exception"
        yield Evidence(fact, error.type, "smoke")
    if error.message:
        yield Evidence("smoke.message", error.message.strip()[:2000], "smoke")
    origin = "faulthandler" if error.kind in {ErrorKind.SIGNAL, ErrorKind.HANG} else "traceback"
    for number, frame in enumerate(error.frames):
        yield Evidence(f"smoke.frame[{number}]", frame, origin)
    if error.kind in {ErrorKind.SIGNAL, ErrorKind.HANG, ErrorKind.EXIT}:
        yield from _last_words(result)


def _last_words(result: SmokeResult) -> Iterator[Evidence]:
    lines = [line.strip() for line in result.stderr.text.splitlines() if line.strip()]
    if lines:
        yield Evidence("smoke.stderr", "\n".join(lines[-_LAST_LINES:])[:2000], "stderr")


def _subject_evidence(result: SmokeResult) -> tuple[Evidence, ...]:
    pairs = (
        ("torch.version", result.detail("import", "torch")),
        ("torch.cuda", result.detail("import", "cuda")),
        ("smoke.device", result.device),
        ("gpu.name", result.detail("cuda-init", "name")),
        ("gpu.capability", result.detail("cuda-init", "capability")),
    )
    return tuple(Evidence(fact, value, "smoke") for fact, value in pairs if value)


def _not_started(result: SmokeResult) -> Finding:
    ended = f"was stopped at {result.stopped_for}" if result.stopped_for else result.ending.text
    return Finding(
        code="SMK005",
        cause="smoke-could-not-start",
        status=Status.UNKNOWN,
        title=f"{result.python} did not run the smoke test: it {ended}",
        detail="It is no Python 3.8 or later, or breaks before the first statement.",
        evidence=tuple(_last_words(result)),
        remedy=Remedy("name a Python interpreter with --python"),
    )


def _no_result(result: SmokeResult) -> Finding:
    return Finding(
        code="SMK006",
        cause="smoke-no-result",
        status=Status.UNKNOWN,
        title=f"the smoke test left no result: {result.python} {result.ending.text}",
        evidence=tuple(_last_words(result)),
    )


def _skipped(result: SmokeResult) -> Iterator[Finding]:
    for stage in result.stages:
        if stage.status is not StageStatus.SKIP:
            continue
        if stage.id != "cuda-init":
            title = f"{stage.id} was skipped: {stage.reason}"
            yield Finding("SMK011", "smoke-stage-skipped", Status.SKIP, title)
        elif result.detail("import", "cuda") and result.device_asked.text != "cpu":
            yield Finding(
                code="SMK009",
                cause="no-gpu-visible",
                status=Status.WARN,
                title=f"{_torch_words(result)} is a CUDA build, but the stages ran on the CPU",
                detail=stage.reason,
                package="torch",
                evidence=_subject_evidence(result),
                remedy=Remedy(
                    "install the NVIDIA driver, or start the container with its GPUs "
                    "(--gpus all); `--device cuda:0` makes this a failure"
                ),
            )


def _other_vendor(result: SmokeResult) -> Iterator[Finding]:
    accelerator = _accelerator(result)
    if accelerator not in {Accelerator.CUDA, Accelerator.CPU}:
        yield Finding(
            code="SMK010",
            cause="other-accelerator",
            status=Status.UNKNOWN,
            title=f"{_torch_words(result)} is a build for {accelerator.value}",
            detail="envguard judges NVIDIA and CPU builds; only the CPU part was run.",
            package="torch",
            evidence=_subject_evidence(result),
        )
