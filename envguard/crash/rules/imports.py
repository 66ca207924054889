"""Words of imports: symbols and libraries that are missing, names that another version lacks."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from envguard.crash.rules.companions import (
    VISION,
    goes_with,
    is_of_ffmpeg,
    outcome_of_library,
    owner_of,
)
from envguard.crash.rules.devices import is_board
from envguard.crash.rules.driver import NO_GPU
from envguard.crash.rules.import_words import WORDS
from envguard.crash.rules.model import Outcome, apply_words, make_finding
from envguard.facts.findings import Evidence, Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.crash.log import Hit

STRING_ABI = Outcome(
    "CRS020",
    "abi-cxx11-flag",
    "a package was built for the other C++ ABI than this torch",
    "The missing symbol takes {abi}: the file was built against a torch of that ABI. Two wheels "
    "of one torch version can differ in it.",
    "install the package's build for the C++ ABI of this torch, or build it here against it "
    "(pip install --no-build-isolation)",
)
TORCH_VERSION = Outcome(
    "CRS021",
    "abi-torch-version",
    "a package was built against another torch version",
    "{lib} needs {sym}, which this torch does not have: its C++ interface changes between minor "
    "releases.",
    "install the package's build for this torch version, or build it here against it",
)
SHADOW = Outcome(
    "CRS025",
    "ld-library-path-shadow",
    "a CUDA library of another release stands before the one that torch brought",
    "{sym} is missing in the library that was loaded: LD_LIBRARY_PATH is searched before the "
    "wheel's own folders.",
    "unset LD_LIBRARY_PATH, or take the folders of other CUDA toolkits out of it",
    ("env", "-u", "LD_LIBRARY_PATH", "python", "-c", "import torch"),
)
NCCL = Outcome(
    "CRS026",
    "nccl-shadowed",
    "an NCCL of another version stands before the one that torch needs",
    "{sym} is missing in the libnccl that was loaded.",
    "take other NCCL libraries out of LD_LIBRARY_PATH, or reinstall the pinned nvidia-nccl wheel",
)
MKL = Outcome(
    "CRS028",
    "vendor-lib-bug",
    "MKL 2024.1 dropped a symbol that this torch needs",
    "{sym} left MKL with 2024.1.",
    "pin mkl below 2024.1",
)
OTHER_SYMBOL = Outcome(
    "CRS036",
    "symbol-missing",
    "a compiled file needs a symbol that nothing here has",
    "{lib} and the libraries that were loaded do not belong together.",
    "reinstall the package of that file and what it depends on",
)
CUDART = Outcome(
    "CRS024",
    "cudart-major-mismatch",
    "a package was built for another CUDA major than torch's",
    "It needs {lib}, which nothing here provides: torch brings the libraries of its own CUDA only.",
    "reinstall that package built for torch's CUDA major (or torch for the package's); do not "
    "link one library to the other's name",
)
TORCH_LIBRARY = Outcome(
    "CRS021",
    "abi-torch-version",
    "a package was built against another torch build",
    "It needs {lib}, a library of torch itself that this build does not have.",
    TORCH_VERSION.remedy,
)
MISSING_LIBRARY = Outcome(
    "CRS038",
    "shared-library-missing",
    "a shared library is missing",
    "{lib} is found neither in the environment nor on the system.",
    "install the package that provides it; `envguard inspect` lists what a file needs",
)
BOARD_LIBRARY = Outcome(
    "CRS109",
    "jetson-needs-l4t-build",
    "{lib} is of another JetPack than the one on this board",
    "NVIDIA's builds for a Jetson use the CUDA of the JetPack release that they are made for, and "
    "PyPI's are for ARM servers.",
    "install the build that NVIDIA publishes for this JetPack release and its Python",
)
GLIBC = Outcome(
    "CRS033",
    "glibc-too-old",
    "the system's C library is older than a wheel needs",
    "{v} is not there: the wheel was built for a newer system.",
    "take an older wheel, or a newer system or image",
)
LIBSTDCXX = Outcome(
    "CRS027",
    "libstdcxx-mismatch",
    "the libstdc++ that is loaded first is older than a library needs",
    "{v} is not there. Two copies of libstdc++ are about, conda's and the system's, and the older "
    "one wins; what follows in the log is the consequence.",
    "conda install -c conda-forge libstdcxx-ng and look at $CONDA_PREFIX/lib/libstdc++.so.6; "
    "delete ~/.cache/torch_extensions if it was compiled there",
)

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


def check_import_words(case: Case) -> Iterator[Finding]:
    """Words that name the cause."""
    yield from apply_words(WORDS, case)


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
    is_torch = outcome in {STRING_ABI, TORCH_VERSION}
    if is_torch and package == "torchvision":
        outcome = VISION
    abi = "the new std::string" if "__cxx1112basic_string" in symbol else "the old std::string"
    named = replace(hit, groups={**hit.groups, "abi": abi, "lib": _file_of(hit)})
    more = (Evidence("symbol", symbol, hit.place),)
    pair = goes_with(case, package) if is_torch else ""
    yield make_finding(case, outcome, status, (named,), more=more, detail=pair)


def outcome_of_symbol(symbol: str) -> Outcome:
    """What a missing symbol says: whose it is, and whether it tells the C++ ABI."""
    if symbol.startswith(_CUDA_SYMBOLS):
        return SHADOW
    if symbol.startswith(("nccl", "pnccl")):
        return NCCL
    if symbol.startswith("iJIT_"):
        return MKL
    if not _TORCH_SYMBOL.search(symbol):
        return OTHER_SYMBOL
    tells_abi = "__cxx1112basic_string" in symbol or _OLD_STRING.search(symbol)
    return STRING_ABI if tells_abi else TORCH_VERSION


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
    outcome = MISSING_LIBRARY
    if is_board(case) and _CUDA_LIBRARY.match(name):
        outcome = BOARD_LIBRARY
    elif (told := outcome_of_library(case, name)) is not None:
        outcome, groups = told
        hit = replace(hit, groups={**hit.groups, **groups})
    elif _OF_DRIVER.match(name):
        outcome = NO_GPU
    elif _CUDA_LIBRARY.match(name):
        outcome = CUDART
    elif _OF_TORCH.match(name):
        outcome = TORCH_LIBRARY
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
        yield make_finding(case, GLIBC if is_glibc else LIBSTDCXX, Status.FAIL, (hit,))
