"""Code that the GPU cannot run: a build too old or too new for it, or an extension."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.crash.case import worked_after
from envguard.crash.cause_findings import make_finding
from envguard.crash.rules.driver import is_board
from envguard.facts.findings import Evidence, Finding, Status
from envguard.facts.machine import OperatingSystem, Platform
from envguard.facts.versions import CodeTarget, ComputeCapability
from envguard.fit import CodeGrade, grade_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.signatures import SignatureMatch

_LINUX = Platform(OperatingSystem.LINUX, "x86_64")
_FIXES = "is_available() can be True all the same: it does not look at the code."

_ERRORS = ("no-kernel-image", "invalid-device-function")
_WARNINGS = ("capability-warning", "gpu-too-old", "capability-codes")
_STATEMENTS = ("capability-words", "arch-complaint")
_RANGES = (
    *_STATEMENTS,
    "capability-range",
    "capability-least",
    "capability-limits",
    "capability-list",
    "capability-code",
)
_RUNNING = frozenset({"code-for-gpu", "arch-false-positive-warning"})


def is_served(case: Case) -> bool:
    """Whether the log's own list of code serves the GPU, so that a complaint means nothing."""
    return bool(_serves(case, _capability(case)[0]))


def check_missing_code(case: Case) -> Iterator[Finding]:
    """No kernel image, or a warning: an old or a new GPU, several, a Jetson, or an extension."""
    errors = case.matches(*_ERRORS)
    said = (*case.matches(*_WARNINGS), *_outside(case))
    if case.log.has("radeon-words") and not errors:
        return  # builds for AMD give such numbers to their GPUs, and the warning means nothing
    hits = (*errors, *said)
    capability, origin = _capability(case)
    serves = _serves(case, capability)
    if serves or not hits:
        yield from _served(case, errors, serves=bool(serves))
        return
    named = (*hits, *case.matches(*_RANGES))
    more = (Evidence("compute capability", str(capability), origin),) if capability else ()
    status = Status.FAIL if errors or not worked_after(case, hits[-1]) else Status.WARN
    if any(f.cause in _RUNNING for f in case.checked):
        if errors and not _is_known_package(case):
            yield make_finding(case, _of_extension(case), Status.FAIL, named, more=more)
    elif is_board(case):
        yield make_finding(case, "jetson-needs-l4t-build", status, named, more=more)
    elif mixed := _mixed(case, has_error=bool(errors)):
        yield make_finding(case, "mixed-gpus-arch.mixed", status, named, more=mixed)
    else:
        yield from _one_sided(case, capability, named, more, status)


def _one_sided(
    case: Case,
    capability: ComputeCapability | None,
    named: tuple[SignatureMatch, ...],
    more: tuple[Evidence, ...],
    status: Status,
) -> Iterator[Finding]:
    is_old = _is_older(case, capability)
    if is_old is None:
        wish = "State the GPU (--gpu NAME) and the torch pin to have one named."
        yield make_finding(case, "arch-missing-old-gpu", Status.UNKNOWN, named, detail=wish)
        yield make_finding(case, "arch-missing-new-gpu", Status.UNKNOWN, named, detail=wish)
    else:
        yield make_finding(
            case,
            "arch-missing-old-gpu" if is_old else "arch-missing-new-gpu",
            status,
            named,
            more=more,
        )


def _served(case: Case, errors: tuple[SignatureMatch, ...], *, serves: bool) -> Iterator[Finding]:
    """What is said where the build's code runs on the GPU, or nothing speaks against it."""
    if errors and serves:
        hits = (*errors, *case.matches(*_RANGES))
        yield make_finding(case, _of_extension(case), Status.FAIL, hits)
        return
    warned = case.matches("capability-range", *_WARNINGS, *_STATEMENTS)
    if serves and warned:
        hits = (*warned, *case.matches("capability-limits", "capability-list"))
        yield make_finding(case, "arch-false-positive-warning", Status.OK, hits)


def _of_extension(case: Case) -> str:
    """Where the fault lies when torch itself has code for the GPUs."""
    if is_board(case):
        return "jetson-needs-l4t-build"
    kinds = {gpu.capability for gpu in case.facts.machine.selected_gpus}
    return "mixed-gpus-arch" if len(kinds) > 1 else "extension-lacks-code-for-gpu"


def _is_known_package(case: Case) -> bool:
    """Whether a check already says which package beside torch has no code for this GPU."""
    return any(f.cause.startswith("arch-missing") and f.package != "torch" for f in case.checked)


def check_named_symbol(case: Case) -> Iterator[Finding]:
    """A compiled package that finds none of its kernels: on a board, a wheel for servers."""
    hits = case.matches("named-symbol")
    if hits and is_board(case):
        yield make_finding(
            case,
            "jetson-needs-l4t-build.board-package",
            Status.FAIL,
            (*hits, *case.matches("jetson-words")),
        )


def _limits(case: Case) -> tuple[ComputeCapability, ComputeCapability] | None:
    hit = case.log.first("capability-limits")
    if hit is None:
        return None
    texts = (hit.groups.get(name) or hit.groups[f"{name}2"] for name in ("low", "high"))
    low, high = (ComputeCapability.parse(text) for text in texts)
    return low, high


def _outside(case: Case) -> tuple[SignatureMatch, ...]:
    """Lines that put a stated capability outside what the build supports."""
    limits, targets = _limits(case), _targets(case)
    capability, _ = _capability(case)
    if limits is not None and capability is not None:
        low, high = limits
        beyond = capability < low or capability.major > high.major
        return case.matches("capability-range", "capability-words", "capability-limits") * beyond
    said = case.matches(*_STATEMENTS)
    if targets:
        return said
    # Without a list, who says it may have looked for the very number: sm_86 serves 8.9.
    is_own = capability is not None and (capability.minor == 0 or _is_older(case, capability))
    return tuple(hit for hit in said if is_own and "cc" in hit.groups)


def _serves(case: Case, capability: ComputeCapability | None) -> bool | None:
    """Whether the code that the log lists runs on the GPU; None where it cannot be told."""
    limits, targets = _limits(case), _targets(case)
    if capability is None:
        return None
    if targets:
        grade = _grade(case, targets, capability)
        return None if grade is CodeGrade.UNKNOWN else grade.runs
    if limits is not None:
        same_major = capability.major == limits[1].major
        return True if limits[1] < capability and same_major else None
    return None


def _grade(case: Case, targets: tuple[CodeTarget, ...], capability: ComputeCapability) -> CodeGrade:
    torch = case.facts.environment.torch if case.facts.environment else None
    return grade_code(targets, capability, torch.cuda if torch else None, can_jit=None).grade


_TARGETS = ("targets", "targets2", "targets3")


def _targets(case: Case) -> tuple[CodeTarget, ...]:
    """The code targets that a line of the log lists, or several of torch's own warning."""
    codes = {hit.groups["cc"].replace(".", "") for hit in case.log.all("capability-code")}
    best = tuple(CodeTarget.parse(f"sm_{code}") for code in sorted(codes))
    for hit in case.log.all("capability-list"):
        text = next(hit.groups[n] for n in _TARGETS if n in hit.groups)
        words = re.findall(r"(?:sm|compute)_\d{2,3}[af]?", text)
        if len(words) > len(best):
            best = tuple(CodeTarget.parse(word) for word in words)
    return best


def _mixed(case: Case, *, has_error: bool) -> tuple[Evidence, ...]:
    """The GPUs of the subject, where they differ so that a build can serve a part of them only."""
    gpus = [gpu for gpu in case.facts.machine.selected_gpus if gpu.capability]
    known = {gpu.capability for gpu in gpus if gpu.capability}
    if len(known) < 2 or not _divides(case, known, has_error=has_error):
        return ()
    return tuple(
        Evidence(f"gpu[{gpu.index}].capability", f"{gpu.capability} ({gpu.name})", "the subject")
        for gpu in gpus
    )


def _divides(case: Case, known: set[ComputeCapability], *, has_error: bool) -> bool:
    targets = _targets(case)
    if targets:
        return len({_grade(case, targets, capability).runs for capability in known}) > 1
    # Kepler's minors were left out one by one; else builds serve a major as a whole.
    return has_error and (len({c.major for c in known}) > 1 or {c.major for c in known} == {3})


def _capability(case: Case) -> tuple[ComputeCapability | None, str]:
    """The GPU's compute capability, from the log or the subject, and who says so."""
    ids = ("capability-warning", "capability-words", "gpu-capability-words", "capability-range")
    for hit in case.matches(*ids):
        text = next((hit.groups[n] for n in ("cc", "cc2", "cc3") if n in hit.groups), "")
        if "major" in hit.groups:
            text = f"{hit.groups['major']}.{hit.groups['minor']}"
        if text:
            dotted = text if "." in text else f"{text[:-1]}.{text[-1]}"
            return ComputeCapability.parse(dotted), hit.place
    known = {gpu.capability for gpu in case.facts.machine.selected_gpus if gpu.capability}
    return (known.pop(), "the subject") if len(known) == 1 else (None, "")


def _is_older(case: Case, capability: ComputeCapability | None) -> bool | None:
    """Whether the GPU is older than the oldest code of the build, as far as it can be told."""
    if case.log.has("gpu-too-old"):
        return True
    if capability is None:
        return None
    listed, newest = _lowest_of_log(case), _lowest_of_newest(case)
    if listed is not None:
        return capability < listed
    # Packages drop the oldest GPUs that torch still serves before torch does.
    return capability <= newest if newest is not None else None


def _lowest_of_log(case: Case) -> ComputeCapability | None:
    limits, targets = _limits(case), _targets(case)
    if limits is not None:
        return limits[0]
    return min((target.capability for target in targets), default=None)


def _lowest_of_newest(case: Case) -> ComputeCapability | None:
    """The oldest GPU that the newest torch for its newest CUDA still serves.

    A build of unknown version that lacks code for a GPU below it was built too late for that
    GPU, for a GPU above it too early.
    """
    ranked = [
        (build.version, build.backend.cuda, min(target.capability for target in build.targets))
        for build in case.matrix.torch.builds(platform=_LINUX)
        if build.targets and build.backend.cuda is not None
    ]
    return max(ranked)[2] if ranked else None
