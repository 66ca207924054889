"""Compiled packages beside torch: whose file it is, which torch it goes with, which it found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.checks.installed import judged_torch
from envguard.checks.remedies import released_for
from envguard.crash.rules.model import (
    make_finding,
    version_or_none,
)
from envguard.facts.environment import Accelerator
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

_OF_BACKEND = {"hip": "ROCm", "xpu": "XPU"}
_BACKEND_LIBRARY = re.compile(r"lib(?:torch|c10)_(?P<backend>hip|xpu)\.so")
_CUDA_BUILD_LIBRARY = re.compile(r"lib(?:torch|c10)_cuda\.so")
_BROUGHT_BY_TORCH = re.compile(
    r"lib(?:cudart|cublas|cudnn|cufft|curand|cusolver|cusparse|nccl|nvJitLink|nvrtc|cupti"
    r"|nvToolsExt|nvshmem|cufile)\w{0,20}\.so"
)
_FFMPEG_LIBRARY = re.compile(r"lib(?:av(?:util|codec|format|filter|device)|sw(?:scale|resample))\.")
_FILE = re.compile(r"(?:site|dist)-packages[/\\](?P<package>[\w-]{1,60})[/\\]")
# Extension modules that lie beside their package, under a name of their own.
_LOOSE = {
    "flash_attn": "flash-attn",
    "causal_conv1d": "causal-conv1d",
    "selective_scan": "mamba-ssm",
}


def check_xformers(case: Case) -> Iterator[Finding]:
    """What xformers says it was built for, against the torch that it found."""
    hit = case.log.first("xformers-built-for")
    if hit is None:
        return
    built, have = (version_or_none(hit.groups[name]) for name in ("built", "have"))
    if built is None or have is None:
        return
    major = hit.groups["cuda"][:2] if hit.groups["cuda"].isdecimal() else ""
    local = have.local or ""
    outcome = "abi-torch-version" if built.public != have.public else None
    if outcome is None and local == "cpu":
        outcome = "companion-from-other-index.built-for-other"
    elif outcome is None and local.startswith("cu") and major and local[2:4] != major:
        outcome = "cudart-major-mismatch"
    if outcome is not None:
        yield make_finding(case, outcome, Status.FAIL, (hit,))


def owner_of(text: str) -> str:
    """The package whose compiled file a line of the loader is about; empty when it is not told."""
    found = _FILE.search(text)
    if found is not None:
        return found["package"].replace("_", "-").lower()
    return next((name for start, name in _LOOSE.items() if start in text), "")


def goes_with(case: Case, package: str) -> str:
    """The release of a package that goes with the torch that is stated, in words; or nothing."""
    torch = judged_torch(case.facts)
    if torch is None or torch.version is None or not package:
        return ""
    release = released_for(package, torch.version, case.matrix)
    return f"{package} {release} goes with torch {torch.version.public}." if release else ""


def outcome_of_library(case: Case, name: str) -> tuple[str, dict[str, str]] | None:
    """What a missing library says about torch's build; None when it says nothing.

    Args:
        case: For what is known of torch, and whether torch itself was being imported.
        name: File name of the library.
    """
    other = _BACKEND_LIBRARY.match(name)
    if other is not None:
        return "companion-from-other-index.other-backend", {
            "backend": _OF_BACKEND[other["backend"]]
        }
    if _CUDA_BUILD_LIBRARY.match(name):
        torch = judged_torch(case.facts)
        is_cuda = torch is not None and torch.accelerator is Accelerator.CUDA
        return None if is_cuda else ("companion-from-other-index.cuda-companion", {})
    if _BROUGHT_BY_TORCH.match(name) and case.log.has("torch-load-frame"):
        return "shared-library-missing", {}
    return ("shared-library-missing.ffmpeg", {}) if is_of_ffmpeg(name) else None


def is_of_ffmpeg(name: str) -> bool:
    """Whether a library is FFmpeg's: packages try one release of it after the other."""
    return _FFMPEG_LIBRARY.match(name) is not None


def check_vision_operators(case: Case) -> Iterator[Finding]:
    """Operators of torchvision that are not there: another version, or another build."""
    hits = case.hits("vision-nms")
    if hits:
        outcome = (
            "companion-from-other-index"
            if _is_pair_of_two_indexes(case)
            else "vision-torch-mismatch.no-operators"
        )
        yield make_finding(case, outcome, Status.FAIL, hits)


def _is_pair_of_two_indexes(case: Case) -> bool:
    """Torch and torchvision were released for each other and carry different labels."""
    environment, torch = case.facts.environment, judged_torch(case.facts)
    vision = environment.distribution("torchvision") if environment is not None else None
    table = case.matrix.packages("torchvision")
    if torch is None or torch.version is None or vision is None or vision.version is None:
        return False
    row = table.release(vision.version) if table is not None else None
    bound = row.requires.get("torch") if row is not None else None
    is_pair = bound is not None and bound.contains(torch.version.public, prereleases=True)
    return bool(bound) and is_pair and torch.version.local != vision.version.local
