"""Code that the GPU cannot run: a build too old or too new for it, or an extension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.rules.model import Outcome, make_finding
from envguard.facts.findings import Evidence, Finding, Status
from envguard.facts.machine import OperatingSystem, Platform
from envguard.facts.versions import CodeTarget, ComputeCapability

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.crash.log import Hit

_LINUX = Platform(OperatingSystem.LINUX, "x86_64")
_FIXES = "is_available() can be True all the same: it does not look at the code."

OLD_GPU = Outcome(
    "CRS002",
    "arch-missing-old-gpu",
    "the build has no code for this GPU, which is older than what it was built for",
    _FIXES,
    "take a build for an older CUDA that still holds code for this GPU",
)
NEW_GPU = Outcome(
    "CRS002",
    "arch-missing-new-gpu",
    "the build has no code for this GPU, which is newer than what it was built for",
    _FIXES,
    "take a newer torch, built for a CUDA that knows this GPU; the index alone is not enough",
)
JETSON = Outcome(
    "CRS002",
    "jetson-needs-l4t-build",
    "this is a build for servers, and the GPU is a Jetson's",
    "Integrated GPUs run code of their own compute capability only.",
    "install the torch build of NVIDIA's Jetson index for this L4T release",
)
EXTENSION = Outcome(
    "CRS002",
    "extension-lacks-code-for-gpu",
    "torch has code for this GPU: what lacks it is an extension",
    "The message comes from a compiled package beside torch.",
    "rebuild or replace the package in the traceback for this GPU",
)
COSMETIC = Outcome(
    "CRS019",
    "arch-false-positive-warning",
    "torch warns about a GPU that it serves",
    "The warning compares numbers; code of the same major and a lower minor runs.",
    "nothing: the warning can be ignored",
)
_FAILED = ("no-kernel-image", "capability-warning", "invalid-device-function")
_RANGES = ("capability-words", "capability-range", "capability-limits", "capability-list")


def check_missing_code(case: Case) -> Iterator[Finding]:
    """No kernel image, or torch's warning: an old or a new GPU, a Jetson, or an extension."""
    hits = (*case.hits(*_FAILED), *_outside(case))
    if not hits:
        yield from _cosmetic(case)
        return
    named = (*hits, *case.hits(*_RANGES))
    capability, origin = _capability(case)
    more = (Evidence("compute capability", str(capability), origin),) if capability else ()
    if any(f.cause in {"code-for-gpu", "arch-false-positive-warning"} for f in case.checked):
        if case.log.has("no-kernel-image", "invalid-device-function"):
            yield make_finding(case, EXTENSION, Status.FAIL, named, more=more)
        return
    if case.log.has("jetson-words") or case.facts.machine.host.jetson:
        yield make_finding(case, JETSON, Status.FAIL, named, more=more)
        return
    is_old = _is_older(case, capability)
    if is_old is None:
        wish = "State the GPU (--gpu NAME) and the torch pin to have one named."
        yield make_finding(case, OLD_GPU, Status.UNKNOWN, named, detail=wish)
        yield make_finding(case, NEW_GPU, Status.UNKNOWN, named, detail=wish)
        return
    yield make_finding(case, OLD_GPU if is_old else NEW_GPU, Status.FAIL, named, more=more)


def _limits(case: Case) -> tuple[ComputeCapability, ComputeCapability] | None:
    hit = case.log.first("capability-limits")
    if hit is None:
        return None
    low, high = (ComputeCapability.parse(hit.groups[name]) for name in ("low", "high"))
    return low, high


def _outside(case: Case) -> tuple[Hit, ...]:
    """Lines that put a stated capability outside what the build supports."""
    words = case.log.first("capability-words")
    limits = _limits(case)
    capability, _ = _capability(case)
    is_named = words is not None and "cc" in words.groups
    if limits is not None and capability is not None:
        low, high = limits
        beyond = capability < low or capability.major > high.major
        return case.hits("capability-range", "capability-words", "capability-limits") * beyond
    return case.hits("capability-words") if is_named else ()


def _cosmetic(case: Case) -> Iterator[Finding]:
    limits, (capability, _) = _limits(case), _capability(case)
    if limits is None or capability is None or not case.log.has("capability-range"):
        return
    if capability > limits[1] and capability.major == limits[1].major:
        hits = case.hits("capability-range", "capability-limits")
        yield make_finding(case, COSMETIC, Status.OK, hits)


def _capability(case: Case) -> tuple[ComputeCapability | None, str]:
    """The GPU's compute capability, from the log or the subject, and who says so."""
    for hit in case.hits("capability-warning", "capability-words", "capability-range"):
        text = hit.groups.get("cc", "")
        if text:
            dotted = text if "." in text else f"{text[:-1]}.{text[-1]}"
            return ComputeCapability.parse(dotted), hit.place
    known = {gpu.capability for gpu in case.facts.machine.selected_gpus if gpu.capability}
    return (known.pop(), "the subject") if len(known) == 1 else (None, "")


def _is_older(case: Case, capability: ComputeCapability | None) -> bool | None:
    """Whether the GPU is older than the oldest code of the build, as far as it can be told."""
    if capability is None:
        return None
    lowest = _lowest_of_log(case) or _lowest_of_newest(case)
    return capability < lowest if lowest is not None else None


def _lowest_of_log(case: Case) -> ComputeCapability | None:
    limits, listed = _limits(case), case.log.first("capability-list")
    if limits is not None:
        return limits[0]
    if listed is not None:
        words = listed.groups["targets"].replace(",", " ").replace(".", " ").split()
        return min(CodeTarget.parse(word).capability for word in words)
    return None


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
