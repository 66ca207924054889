"""Findings of a smoke test: what failed, in which way, and what it means."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.facts.environment import Accelerator
from envguard.facts.findings import Evidence, Finding, Remedy, Status
from envguard.facts.sentences import join_sentences, say
from envguard.facts.versions import CudaVersion
from envguard.fit import CodeGrade, grade_code
from envguard.matrix.causes import Where
from envguard.signatures import fill_message, find_shown, find_signatures
from envguard.smoke.result import (
    ErrorKind,
    SmokeResult,
    StageError,
    StageResult,
    StageStatus,
    clean_text,
    parse_capability,
    parse_cuda,
    parse_targets,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.facts.machine import Gpu
    from envguard.matrix.causes import Message
    from envguard.matrix.loader import Matrix
    from envguard.signatures import SignatureMatch


_CODES = {
    ErrorKind.EXCEPTION: "SMK001",
    ErrorKind.SIGNAL: "SMK002",
    ErrorKind.HANG: "SMK003",
    ErrorKind.NUMERICS: "SMK004",
    ErrorKind.EXIT: "SMK006",
    ErrorKind.DEVICE: "SMK008",
}
_NO_TORCH = "SMK007"
_WORDS_LIMIT = 240
_LAST_LINES = 6
_OF_DEEPSPEED = ("deepspeed", "zero-")
_ABOUT_THE_GPU = frozenset({Status.OK, Status.FAIL})


def smoke_findings(
    result: SmokeResult, matrix: Matrix, gpus: tuple[Gpu, ...] = ()
) -> tuple[Finding, ...]:
    """All findings: one for each way in which stages failed, or one that says all went well.

    Args:
        result: What was found.
        matrix: What words show which cause.
        gpus: The machine's GPUs; the one under test is found among them by its UUID.
    """
    index = nvml_index(result.detail("cuda-init", "uuid"), gpus)
    tested = () if index is None else (index,)
    return tuple(
        replace(finding, gpus=tested) if finding.status in _ABOUT_THE_GPU else finding
        for finding in _findings(result, matrix)
    )


def nvml_index(uuid: str | None, gpus: tuple[Gpu, ...]) -> int | None:
    """The NVML index of the GPU, or of the one that holds the MIG instance, with this UUID.

    Args:
        uuid: As torch prints it, without ``GPU-``, or as NVML does; None when not known.
        gpus: As NVML lists them.
    """
    if not uuid:
        return None
    wanted = _bare_uuid(uuid)
    for gpu in gpus:
        known = (gpu.uuid, *(device.uuid for device in gpu.mig_devices))
        if wanted in {_bare_uuid(text) for text in known if text}:
            return gpu.index
    return None


def _bare_uuid(text: str) -> str:
    return text.lower().removeprefix("gpu-").removeprefix("mig-")


def _findings(result: SmokeResult, matrix: Matrix) -> tuple[Finding, ...]:
    if not result.is_started:
        return (_not_started(result),)
    failed = tuple(_failures(result, matrix))
    if not failed and not _is_whole(result):
        return (_no_result(result),)
    remarks = (*_skipped(result), *_other_vendor(result))
    return (*(failed or (_passed(result),)), *remarks)


def _is_whole(result: SmokeResult) -> bool:
    """Every stage came to an end, and torch was loaded: nothing can be skipped instead of that."""
    loaded = result.stage("import")
    is_loaded = loaded is None or loaded.status is not StageStatus.SKIP
    return is_loaded and not any(s.status is StageStatus.NOT_REACHED for s in result.stages)


def accelerator_of(result: SmokeResult) -> Accelerator:
    """What the build drives, by its own word."""
    if result.detail("import", "hip"):
        return Accelerator.ROCM
    if result.detail("import", "xpu"):
        return Accelerator.XPU
    return Accelerator.CUDA if result.detail("import", "cuda") else Accelerator.CPU


def _torch_words(result: SmokeResult) -> str:
    version = result.detail("import", "torch")
    return say("torch {version}", version=version) if version else "torch"


def _where(result: SmokeResult) -> str:
    name = result.detail("cuda-init", "name")
    if result.device is None:
        return ""
    is_named = name and result.device.startswith("cuda")
    return (
        say(" on {device} ({name})", device=result.device, name=name)
        if is_named
        else say(" on {device}", device=result.device)
    )


def _passed(result: SmokeResult) -> Finding:
    count = sum(stage.status is StageStatus.OK for stage in result.stages)
    words = _torch_words(result)
    return Finding(
        code="SMK000",
        cause="smoke-passed",
        status=Status.OK,
        title=say(
            "{torch} passed {count} stages{where} in {seconds:.1f} s",
            torch=words,
            count=count,
            where=_where(result),
            seconds=result.seconds,
        ),
        package="torch",
        evidence=_subject_evidence(result),
    )


def _failures(result: SmokeResult, matrix: Matrix) -> Iterator[Finding]:
    """One finding for each failure; stages that failed with the same words are one."""
    groups: dict[tuple[str, str], list[StageResult]] = {}
    for stage in result.stages:
        if stage.status is StageStatus.FAIL:
            error = stage.error or StageError(ErrorKind.EXCEPTION, "", "")
            groups.setdefault((error.type, error.message), []).append(stage)
    for stages in groups.values():
        yield _failure(result, stages, matrix)


def _failure(result: SmokeResult, stages: list[StageResult], matrix: Matrix) -> Finding:
    first = stages[0]
    error = first.error or StageError(ErrorKind.EXCEPTION, "", "no words")
    said = find_cause(result, first, matrix)
    details = (said.detail, _place(error), _last_word(result, error))
    names = ", ".join(f"{s.id} ({s.part})" if s.part else s.id for s in stages)
    return Finding(
        code=_code(error, said),
        cause=said.cause,
        status=Status.FAIL,
        title=_title(result, names, error, said),
        detail=join_sentences(*details),
        package="deepspeed" if first.id.startswith(_OF_DEEPSPEED) else "torch",
        evidence=(*_error_evidence(result, names, error), *_subject_evidence(result)),
        remedy=_remedy(result, said),
    )


def _code(error: StageError, said: Message) -> str:
    """The way in which a stage failed is the code; torch that is not there has its own."""
    return said.code if said.code == _NO_TORCH else _CODES[error.kind]


def _remedy(result: SmokeResult, said: Message) -> Remedy | None:
    """What to do; a command is for the interpreter that was tested."""
    if not said.remedy:
        return None
    command = (result.python if word == "python" else word for word in said.command)
    return Remedy(said.remedy, tuple(command))


def _place(error: StageError) -> str:
    """The innermost frame; all of them are in the evidence."""
    if not error.frames:
        return ""
    first_is_innermost = error.kind in {ErrorKind.SIGNAL, ErrorKind.HANG, ErrorKind.EXIT}
    return say("Innermost frame: {frame}.", frame=error.frames[0 if first_is_innermost else -1])


def _last_word(result: SmokeResult, error: StageError) -> str:
    if error.kind not in {ErrorKind.SIGNAL, ErrorKind.EXIT}:
        return ""
    lines = _stderr_lines(result)
    return say("Last line on stderr: {line}", line=lines[-1][:_WORDS_LIMIT]) if lines else ""


def _title(result: SmokeResult, names: str, error: StageError, said: Message) -> str:
    first_line = error.message.strip().partition("\n")[0][:_WORDS_LIMIT]
    if said.code == _NO_TORCH:
        return said.title
    match error.kind:
        case ErrorKind.EXCEPTION:
            message = first_line.rstrip(": ")
            if not message:
                return join_sentences(names, error.type, by=": ")
            return say(
                "{stages}: {type}: {message}", stages=names, type=error.type, message=message
            )
        case ErrorKind.SIGNAL | ErrorKind.HANG | ErrorKind.EXIT:
            return say("{stages}: {message}", stages=names, message=first_line)
        case ErrorKind.NUMERICS:
            return say("{stages}: wrong numbers: {message}", stages=names, message=first_line)
        case ErrorKind.DEVICE:
            return say(
                "{stages}: {device} is not available: {message}",
                stages=names,
                device=result.device_asked,
                message=first_line,
            )


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


def _stderr_lines(result: SmokeResult) -> list[str]:
    lines = clean_text(result.stderr.text).splitlines()
    return [line.strip() for line in lines if any(map(str.isalnum, line))]  # no rulers


def _last_words(result: SmokeResult) -> Iterator[Evidence]:
    lines = _stderr_lines(result)
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


def _end_words(result: SmokeResult) -> str:
    if result.stopped_for:
        return say("was ended after {time}", time=result.stopped_for)
    return result.child_exit.text


def _not_started(result: SmokeResult) -> Finding:
    ended = _end_words(result)
    return Finding(
        code="SMK005",
        cause="smoke-could-not-start",
        status=Status.UNKNOWN,
        title=say(
            "{python} did not run the smoke test: it {child_exit}",
            python=result.python,
            child_exit=ended,
        ),
        detail="It is no Python 3.8 or later, or breaks before the first statement.",
        evidence=tuple(_last_words(result)),
        remedy=Remedy("name a Python interpreter with --python"),
    )


def _no_result(result: SmokeResult) -> Finding:
    ended = _end_words(result)
    return Finding(
        code="SMK006",
        cause="smoke-no-result",
        status=Status.UNKNOWN,
        title=say(
            "the smoke test left no whole result: {python} {child_exit}",
            python=result.python,
            child_exit=ended,
        ),
        evidence=tuple(_last_words(result)),
    )


def _skipped(result: SmokeResult) -> Iterator[Finding]:
    for stage in result.stages:
        if stage.status is not StageStatus.SKIP:
            continue
        if stage.id != "cuda-init":
            title = say("{stage} was skipped: {reason}", stage=stage.id, reason=stage.reason)
            yield Finding("SMK011", "smoke-stage-skipped", Status.SKIP, title)
        elif result.detail("import", "cuda") and result.device_asked.text != "cpu":
            yield Finding(
                code="SMK009",
                cause="no-gpu-visible",
                status=Status.WARN,
                title=say(
                    "{torch} is a CUDA build, but the stages ran on the CPU",
                    torch=_torch_words(result),
                ),
                detail=stage.reason,
                package="torch",
                evidence=_subject_evidence(result),
                remedy=Remedy(
                    "install the NVIDIA driver, or start the container with its GPUs "
                    "(--gpus all); `--device cuda:0` makes this a failure"
                ),
            )


def _other_vendor(result: SmokeResult) -> Iterator[Finding]:
    accelerator = accelerator_of(result)
    if accelerator not in {Accelerator.CUDA, Accelerator.CPU}:
        yield Finding(
            code="SMK010",
            cause="other-accelerator",
            status=Status.UNKNOWN,
            title=say(
                "{torch} is a build for {accelerator}",
                torch=_torch_words(result),
                accelerator=accelerator.value,
            ),
            detail="envguard judges NVIDIA and CPU builds; only the CPU part was run.",
            package="torch",
            evidence=_subject_evidence(result),
        )


# What may stand in a sentence where the words do not name it.
_NO_FILE = "a compiled file"
_TEXT_LIMIT = 20_000
_OLD_DRIVER = ("driver-too-old", "insufficient-driver", "cuda-name-insufficient")
_NO_CODE = ("no-kernel-image", "invalid-device-function")
_KILLED = "SIGKILL"


def find_cause(result: SmokeResult, stage: StageResult, matrix: Matrix) -> Message:
    """Name the cause of a failed stage.

    Returns:
        What is said of the most fundamental cause that the evidence shows, else of how the stage
        failed. The code of the message is not the finding's.
    """
    error = stage.error
    if error is None:
        return matrix.causes.message("smoke-stage-failed")
    if error.type == _KILLED:
        return _of_kill(result, matrix)
    hits = find_signatures(_words_of(result, error), matrix)
    known = {"python": result.python, "lib": _NO_FILE}
    shown = [
        *_old_driver(result, hits, matrix),
        *_missing_code(result, hits, matrix),
        *find_shown(hits, matrix, Where.ERROR, known),
    ]
    rank = matrix.order.rank
    by_order = min(shown, key=lambda said: rank(said.cause), default=None)
    return by_order or _by_kind(result, stage, error, matrix)


def _words_of(result: SmokeResult, error: StageError) -> str:
    """What may speak: an exception for itself; a crash through what was printed before it."""
    words = [f"{error.type}: {error.message}"]
    words += [f"File {frame.replace(' in ', ', in ')}" for frame in error.frames]
    if error.kind in {ErrorKind.SIGNAL, ErrorKind.EXIT}:
        words.append(result.stderr.text[-_TEXT_LIMIT:])
    return "\n".join(words)


def _has(hits: tuple[SignatureMatch, ...], ids: tuple[str, ...]) -> bool:
    return any(hit.id in ids for hit in hits)


def _with(matrix: Matrix, name: str, detail: str) -> Message:
    """The message of this name, with a sentence of what is known beyond it."""
    said = matrix.causes.message(name)
    return replace(said, detail=join_sentences(said.detail, detail))


def _old_driver(
    result: SmokeResult, hits: tuple[SignatureMatch, ...], matrix: Matrix
) -> Iterator[Message]:
    """The driver is too old; figures tell whether by a major."""
    if not _has(hits, _OLD_DRIVER):
        return
    number = next((n for hit in hits if hit.id == _OLD_DRIVER[0] and (n := hit.number("v"))), None)
    runtime = parse_cuda(result.detail("import", "cuda"))
    if runtime is None or number is None:
        yield matrix.causes.message("driver-too-old-for-cuda")
        return
    api = CudaVersion.from_api(number)
    detail = say(
        "The driver supports CUDA {api}; this torch was built for CUDA {runtime}.",
        api=api,
        runtime=runtime,
    )
    is_other_major = api.major < runtime.major
    name = "driver-too-old-for-cuda-major" if is_other_major else "driver-too-old-for-cuda"
    yield _with(matrix, name, detail)


def _missing_code(
    result: SmokeResult, hits: tuple[SignatureMatch, ...], matrix: Matrix
) -> Iterator[Message]:
    """Only when capability and code targets are both known do the words name a cause."""
    capability = parse_capability(result.detail("cuda-init", "capability"))
    targets = parse_targets(result)
    if not _has(hits, _NO_CODE) or capability is None or not targets:
        return
    runtime = parse_cuda(result.detail("import", "cuda"))
    fit = grade_code(targets, capability, runtime, can_jit=False)
    if fit.grade.runs:
        detail = say("torch itself has {target} for this GPU.", target=fit.target)
        yield _with(matrix, "extension-lacks-code-for-gpu", detail)
        return
    is_old = fit.grade is CodeGrade.NONE and all(t.capability > capability for t in targets)
    listed = " ".join(map(str, targets))
    detail = say(
        "The build holds {listed}; the GPU is of compute capability {capability}.",
        listed=listed,
        capability=capability,
    )
    yield _with(matrix, "arch-missing-old-gpu" if is_old else "arch-missing-new-gpu", detail)


def _by_kind(result: SmokeResult, stage: StageResult, error: StageError, matrix: Matrix) -> Message:
    """What the way of failing says by itself."""
    message = matrix.causes.message
    match error.kind:
        case ErrorKind.SIGNAL:
            return message(_of_signal(stage, error))
        case ErrorKind.HANG:
            return message("smoke-hang")
        case ErrorKind.NUMERICS:
            return message("smoke-wrong-numerics")
        case ErrorKind.DEVICE:
            return message("device-not-available")
        case ErrorKind.EXCEPTION if error.module == stage.id:  # the stage imports its namesake
            named = {"module": stage.id, "python": result.python}
            return fill_message(message("smoke-stage-failed.module"), named)
        case ErrorKind.EXCEPTION | ErrorKind.EXIT:
            return message("smoke-stage-failed")


def _of_signal(stage: StageResult, error: StageError) -> str:
    """The message of what a signal says by itself, in the stage in which it came."""
    if stage.id == "cuda-init" and error.type != "SIGTERM":
        return "libcuda-crash"
    match error.type:
        case "SIGSEGV" | "SIGBUS" | "STATUS_ACCESS_VIOLATION":
            return "unknown-segfault.smoke"
        case "SIGILL" | "STATUS_ILLEGAL_INSTRUCTION":
            return "cpu-lacks-instructions"
        case "STATUS_NO_MEMORY":
            return "host-allocation-refused"
        case _:
            return "smoke-stage-failed"


def _of_kill(result: SmokeResult, matrix: Matrix) -> Message:
    """SIGKILL is host memory only with evidence: the cgroup counted a kill meanwhile.

    It comes from outside, so that what the program wrote before it explains nothing.
    """
    if not result.oom.kills:
        return matrix.causes.message("killed-from-outside.smoke")
    counted = say(
        "The memory cgroup counted {kills} out-of-memory kill(s) meanwhile", kills=result.oom.kills
    )
    if result.oom.limit_hits:
        return _with(
            matrix, "container-memory-limit", say("{counted}, at its own limit.", counted=counted)
        )
    return _with(matrix, "host-memory-exhausted", say("{counted}.", counted=counted))
