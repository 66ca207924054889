"""Compiled packages beside torch: whose file it is, which torch it goes with, which it found."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.checks.installed import judged_torch
from envguard.checks.remedies import released_for
from envguard.crash.rules.model import (
    Outcome,
    WordRule,
    apply_words,
    make_finding,
    version_or_none,
)
from envguard.facts.environment import Accelerator
from envguard.facts.findings import Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case

VISION = Outcome(
    "CRS022",
    "vision-torch-mismatch",
    "torchvision does not belong to this torch",
    "{lib} needs {sym}, which this torch does not have: torch and torchvision are released in "
    "pairs (torch 2.N with torchvision 0.(N+15)).",
    "install the torchvision released for this torch, from the same index or channel",
)
NO_OPERATORS = Outcome(
    "CRS022",
    "vision-torch-mismatch",
    "torchvision does not belong to this torch",
    "Its compiled operators did not register: torch and torchvision are released in pairs "
    "(torch 2.N with torchvision 0.(N+15)), and both have to come from one index.",
    "install the torchvision released for this torch, from the same index",
)
OTHER_INDEX = Outcome(
    "CRS029",
    "companion-from-other-index",
    "torchvision comes from another index than torch",
    "Their versions are a pair, and its compiled operators did not register: it was built for "
    "another build of that torch.",
    "install torchvision from the index that torch came from, with the same label",
)
OTHER_BACKEND = Outcome(
    "CRS029",
    "companion-from-other-index",
    "a package was built for torch's {backend} build, and this torch is another",
    "It needs {lib}, which only that build of torch has.",
    "install the package from the index that torch came from; {lib} cannot be installed by itself",
)
CUDA_COMPANION = Outcome(
    "CRS029",
    "companion-from-other-index",
    "a package was built for CUDA, and this torch is a build without it",
    "It needs {lib}, which every CUDA build of torch has and no other.",
    "install the CUDA build of torch, or the package from the index that torch came from",
)
OWN_LIBRARY = Outcome(
    "CRS038",
    "shared-library-missing",
    "torch does not find a CUDA library of its own",
    "It needs {lib}, which comes with it in the nvidia-* packages; torch itself was being "
    "imported, so that no other package is at fault.",
    "reinstall torch with what it requires (not --no-deps), into one folder; no CUDA toolkit is "
    "needed",
)
FFMPEG = Outcome(
    "CRS038",
    "shared-library-missing",
    "FFmpeg's libraries are missing, or of a release that is not supported",
    "{lib} is one of those that are tried, one FFmpeg after the other; none was found.",
    "install FFmpeg with its shared libraries (conda install -c conda-forge ffmpeg, or the "
    "system's), of a release that the package names",
)
_BUILT_FOR_TORCH = Outcome(
    "CRS021",
    "abi-torch-version",
    "xformers was built for torch {built}, and this one is {have}",
    "It goes on without its compiled code: its attention raises where it is asked for.",
    "install the xformers released for this torch, from the same index",
)
_BUILT_FOR_CUDA = Outcome(
    "CRS024",
    "cudart-major-mismatch",
    "xformers was built for torch {built}, and this one is {have}",
    "The CUDA majors differ: its compiled code needs libraries that this torch does not bring.",
    "install xformers from the index that torch came from",
)
_BUILT_FOR_OTHER = replace(
    CUDA_COMPANION,
    title=_BUILT_FOR_CUDA.title,
    detail=("This torch is a build without CUDA; the compiled code of xformers needs one with it."),
)
_WORDS = (
    WordRule(
        Outcome(
            "CRS150",
            "cuda-library-missing",
            "bitsandbytes did not load its library for CUDA",
            "It looks for the library of torch's CUDA, finds none that loads, and goes on with "
            "the one for CPUs, which has none of the functions that are asked for.",
            "`python -m bitsandbytes` says what it looked for; upgrade bitsandbytes, and see that "
            "torch is a CUDA build that sees the GPU",
            ("python", "-m", "bitsandbytes"),
        ),
        ("bnb-cpu-library",),
    ),
    WordRule(
        Outcome(
            "CRS021",
            "abi-torch-version",
            "torchao goes on without its compiled code, which was built for another torch",
            "torchao {built} beside torch {have}: what is written in Python works.",
            "install the torchao that its README pairs with this torch",
        ),
        ("torchao-skips",),
        # Every start says so, whatever a run dies of later.
        status=Status.OK,
    ),
)
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


def check_companion_words(case: Case) -> Iterator[Finding]:
    """Words that name the cause."""
    yield from apply_words(_WORDS, case)


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
    outcome = _BUILT_FOR_TORCH if built.public != have.public else None
    if outcome is None and local == "cpu":
        outcome = _BUILT_FOR_OTHER
    elif outcome is None and local.startswith("cu") and major and local[2:4] != major:
        outcome = _BUILT_FOR_CUDA
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


def outcome_of_library(case: Case, name: str) -> tuple[Outcome, dict[str, str]] | None:
    """What a missing library says about torch's build; None when it says nothing.

    Args:
        case: For what is known of torch, and whether torch itself was being imported.
        name: File name of the library.
    """
    other = _BACKEND_LIBRARY.match(name)
    if other is not None:
        return OTHER_BACKEND, {"backend": _OF_BACKEND[other["backend"]]}
    if _CUDA_BUILD_LIBRARY.match(name):
        torch = judged_torch(case.facts)
        is_cuda = torch is not None and torch.accelerator is Accelerator.CUDA
        return None if is_cuda else (CUDA_COMPANION, {})
    if _BROUGHT_BY_TORCH.match(name) and case.log.has("torch-load-frame"):
        return OWN_LIBRARY, {}
    return (FFMPEG, {}) if is_of_ffmpeg(name) else None


def is_of_ffmpeg(name: str) -> bool:
    """Whether a library is FFmpeg's: packages try one release of it after the other."""
    return _FFMPEG_LIBRARY.match(name) is not None


def check_vision_operators(case: Case) -> Iterator[Finding]:
    """Operators of torchvision that are not there: another version, or another build."""
    hits = case.hits("vision-nms")
    if hits:
        outcome = OTHER_INDEX if _is_pair_of_two_indexes(case) else NO_OPERATORS
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
