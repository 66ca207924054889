"""Words of imports: symbols and libraries that are missing, names that another version lacks."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.crash.rules.companions import (
    goes_with,
    is_of_ffmpeg,
    outcome_of_library,
    owner_of,
)
from envguard.crash.rules.devices import is_board
from envguard.crash.rules.model import make_finding
from envguard.facts.findings import Evidence, Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.crash.log import Hit


# Itanium mangling: a length before each name, as in _ZN3c105Error.
# torch's stable interface is C: torch_dtype_float8_e4m3fn, torch_call_dispatcher.
_TORCH_SYMBOL = re.compile(
    r"(?<!\d)(?:3c10|2at|5torch|6caffe2|4c10d)(?=[\dA-Z])|^(?:THP|aoti_torch_|torch_[a-z])"
)
# The old std::string is the substitution Ss, alone or by reference (RKSs) and often at the end.
_OLD_STRING = re.compile(r"(?:RK|[EiljmbxyvP])Ss(?:$|[A-Z_])|S[sS]_?$|Ss$")
_BNB_CPU = "libbitsandbytes_cpu.so"
_IMAGE_ONLY = "Failed to load image Python extension"
_CUDA_SYMBOLS = ("__nvJitLink", "cublas", "cudnn", "cusparse", "cusolver", "cufft", "nvrtc")
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
    outcome = outcome_of_symbol(symbol)
    is_torch = outcome in {"abi-cxx11-flag", "abi-torch-version.torch-version"}
    if is_torch and package == "torchvision":
        outcome = "vision-torch-mismatch"
    abi = "the new std::string" if "__cxx1112basic_string" in symbol else "the old std::string"
    named = replace(hit, groups={**hit.groups, "abi": abi, "lib": _file_of(hit)})
    more = (Evidence("symbol", symbol, hit.place),)
    pair = goes_with(case, package) if is_torch else ""
    yield make_finding(case, outcome, status, (named,), more=more, detail=pair)


def outcome_of_symbol(symbol: str) -> str:
    """What a missing symbol says: whose it is, and whether it tells the C++ ABI."""
    if symbol.startswith(_CUDA_SYMBOLS):
        return "ld-library-path-shadow"
    if symbol.startswith(("nccl", "pnccl")):
        return "nccl-shadowed"
    if symbol.startswith("iJIT_"):
        return "vendor-lib-bug"
    if not _TORCH_SYMBOL.search(symbol):
        return "symbol-missing"
    tells_abi = "__cxx1112basic_string" in symbol or _OLD_STRING.search(symbol)
    return "abi-cxx11-flag" if tells_abi else "abi-torch-version.torch-version"


def _file_of(hit: Hit) -> str:
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
    elif (told := outcome_of_library(case, name)) is not None:
        outcome, groups = told
        hit = replace(hit, groups={**hit.groups, **groups})
    elif _OF_DRIVER.match(name):
        outcome = "no-gpu-visible"
    elif _CUDA_LIBRARY.match(name):
        outcome = "cudart-major-mismatch.cudart"
    elif _OF_TORCH.match(name):
        outcome = "abi-torch-version.torch-library"
    yield make_finding(case, outcome, Status.FAIL, (hit,))


def _missing_library(case: Case) -> Hit | None:
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
