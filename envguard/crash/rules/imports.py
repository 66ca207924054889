"""Imports that fail: symbols and libraries that are missing, companions of another build."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.checks.installed import judged_torch
from envguard.checks.remedies import released_for
from envguard.conditions import admits
from envguard.crash.cause_findings import make_finding, version_or_none
from envguard.crash.rules.driver import is_board
from envguard.facts.environment import Accelerator
from envguard.facts.findings import Evidence, Finding, Status
from envguard.facts.sentences import say
from envguard.matrix.causes import Where
from envguard.signatures import find_shown, find_signatures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.matrix.loader import Matrix
    from envguard.signatures import SignatureMatch


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
    return (
        say(
            "{package} {version} goes with torch {torch}.",
            package=package,
            version=release,
            torch=torch.version.public,
        )
        if release
        else ""
    )


def message_of_library(case: Case, name: str) -> tuple[str, dict[str, str]] | None:
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
    hits = case.matches("vision-nms")
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
    is_pair = bound is not None and admits(bound, torch.version)
    return bool(bound) and is_pair and torch.version.local != vision.version.local


_BNB_CPU = "libbitsandbytes_cpu.so"
_IMAGE_ONLY = "Failed to load image Python extension"
# Libraries whose file name carries the CUDA major, or a number that goes with it.
_CUDA_LIBRARY = re.compile(
    r"lib(?:cudart|cublas(?:Lt)?|cusparse|cusolver|cufft|curand|nvrtc|nvJitLink|npp\w{1,4})\.so\.\d"
)
_OF_DRIVER = re.compile(r"lib(?:cuda|nvidia-ml|nvidia-ptxjitcompiler)\.so")
_OF_TORCH = re.compile(r"lib(?:torch|c10|caffe2|shm|torch_cuda)\w{0,20}\.so")


def check_undefined_symbol(case: Case) -> Iterator[Finding]:
    """A symbol that the loaded libraries do not have: its name tells whose it is."""
    hits = [hit for hit in case.log.all("undefined-symbol") if _BNB_CPU not in hit.text]
    # torchvision goes on without its image files, and says that it may be ignored.
    grave = [hit for hit in hits if _IMAGE_ONLY not in hit.text]
    hit = next(iter(grave or hits), None)
    if hit is None:
        return
    status = Status.FAIL if grave else Status.WARN
    symbol, package = hit.groups["sym"], owner_of(hit.text)
    outcome = message_of_symbol(symbol, case.matrix)
    is_torch = outcome.startswith(("abi-cxx11-flag", "abi-torch-version"))
    if is_torch and package == "torchvision":
        outcome = "vision-torch-mismatch"
    named = replace(hit, groups={**hit.groups, "lib": _file_of(hit)})
    more = (Evidence("symbol", symbol, hit.place),)
    pair = goes_with(case, package) if is_torch else ""
    yield make_finding(case, outcome, status, (named,), more=more, detail=pair)


def message_of_symbol(symbol: str, matrix: Matrix) -> str:
    """What a missing symbol says: whose it is, and whether it tells the C++ ABI."""
    hits = find_signatures(f"undefined symbol: {symbol}", matrix)
    said = next(find_shown(hits, matrix, Where.ERROR), None)
    return said.id if said is not None else "symbol-missing"


def _file_of(hit: SignatureMatch) -> str:
    match = re.search(r"(?<![\w.+-])((?>[\w.+-]{1,120}\.(?:so|pyd))[\w.]{0,20}): ", hit.text)
    return match[1] if match else "a compiled file"


def check_missing_library(case: Case) -> Iterator[Finding]:
    """A shared library that the loader does not find."""
    hit = _missing_library(case)
    if hit is None:
        return
    name = hit.groups["lib"]
    if is_board(case) and name.startswith("libnvidia-ml"):
        return  # a board may have none, and check_nvml_on_boards speaks of it
    outcome = "shared-library-missing.missing-library"
    if is_board(case) and _CUDA_LIBRARY.match(name):
        outcome = "jetson-needs-l4t-build.board-library"
    elif (told := message_of_library(case, name)) is not None:
        outcome, groups = told
        hit = replace(hit, groups={**hit.groups, **groups})
    elif _OF_DRIVER.match(name):
        outcome = "no-gpu-visible"
    elif _CUDA_LIBRARY.match(name):
        outcome = "cudart-major-mismatch.cudart"
    elif _OF_TORCH.match(name):
        outcome = "abi-torch-version.torch-library"
    yield make_finding(case, outcome, Status.FAIL, (hit,))


def _missing_library(case: Case) -> SignatureMatch | None:
    """The library that is spoken of: FFmpeg's only where nothing else is wrong.

    An extension that was to be compiled on first use is no library that could be installed.
    """
    built = {hit.order for hit in case.log.all("extension-not-built")}
    hits = [hit for hit in case.log.all("cannot-open-shared") if hit.order not in built]
    hits = [hit for hit in hits if "libbitsandbytes_" not in hit.groups["lib"]]
    others = [hit for hit in hits if not is_of_ffmpeg(hit.groups["lib"])]
    if hits and not others and case.log.has("undefined-symbol"):
        return None
    return next(iter(others or hits), None)


def check_system_library(case: Case) -> Iterator[Finding]:
    """A version of the C or C++ library that is not there."""
    hit = case.log.first("glibc-version")
    if hit is not None:
        is_glibc = hit.groups["v"].startswith("GLIBC_")
        yield make_finding(
            case, "glibc-too-old" if is_glibc else "libstdcxx-mismatch", Status.FAIL, (hit,)
        )
