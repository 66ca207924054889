"""Words of imports and builds: ABI, missing libraries, companions, DeepSpeed, resolvers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envguard.crash.rules.model import Outcome, WordRule, apply_words, make_finding
from envguard.facts.findings import Evidence, Finding, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.crash.log import Hit

OLD_STRING = Outcome(
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
    "{lib} needs the symbol {sym}, which this torch does not have: torch's C++ interface changes "
    "between minor releases.",
    "install the package's build for this torch version, or build it here against it",
)
NVJITLINK = Outcome(
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
CUDART = Outcome(
    "CRS024",
    "cudart-major-mismatch",
    "a package was built for another CUDA major than torch's",
    "It needs {lib}, which nothing here provides: torch brings the runtime of its own CUDA only.",
    "reinstall that package built for torch's CUDA major (or torch for the package's); do not "
    "link one library to the other's name",
)
MISSING_LIBRARY = Outcome(
    "CRS038",
    "shared-library-missing",
    "a shared library is missing",
    "{lib} is found neither in the environment nor on the system.",
    "install the package that provides it; `envguard inspect` lists what a file needs",
)
_COMPANION = Outcome(
    "CRS022",
    "vision-torch-mismatch",
    "torchvision does not belong to this torch",
    "Its compiled operators did not register: torch and torchvision are released in pairs "
    "(torch 2.N with torchvision 0.(N+15)), and both have to come from one index.",
    "install the torchvision released for this torch, from the same index",
)
_WORDS = (
    WordRule(_COMPANION, ("vision-nms",)),
    WordRule(
        Outcome(
            "CRS023",
            "vision-cpu-build",
            "torchvision is a CPU build beside a CUDA build of torch",
            "Its operators have no CUDA form.",
            "install torchvision from the index that torch came from",
        ),
        ("vision-cpu-kernel",),
    ),
    WordRule(
        Outcome(
            "CRS029",
            "companion-from-other-index",
            "torch and a companion were built for different CUDA releases",
            "They come from two indexes.",
            "install torch, torchvision and torchaudio in one step from one index",
        ),
        ("companion-cuda-differs",),
    ),
    WordRule(
        Outcome(
            "CRS025",
            "ld-library-path-shadow",
            "a cuDNN of another version stands before the one that torch brought",
            "LD_LIBRARY_PATH is searched before the wheel's own folders.",
            "unset LD_LIBRARY_PATH, or take the folders of other CUDA and cuDNN releases out of it",
            ("env", "-u", "LD_LIBRARY_PATH", "python", "-c", "import torch"),
        ),
        ("cudnn-differs",),
    ),
    WordRule(
        Outcome(
            "CRS030",
            "ds-too-old-for-torch",
            "DeepSpeed is too old for this torch",
            "torch 2.0 removed torch._six, which DeepSpeed imports before 0.8.2.",
            "upgrade DeepSpeed to 0.8.2 or newer",
            ("python", "-m", "pip", "install", "deepspeed>=0.8.2"),
        ),
        ("torch-six",),
    ),
    WordRule(
        Outcome(
            "CRS031",
            "ds-too-old-for-numpy",
            "DeepSpeed uses a numpy alias that this numpy removed",
            "numpy.{alias} is gone.",
            "upgrade DeepSpeed, or pin numpy below the release that removed it",
        ),
        ("numpy-alias",),
        needs=("deepspeed-frame", "deepspeed-words"),
    ),
    WordRule(
        Outcome(
            "CRS037",
            "numpy-interface-mismatch",
            "a package does not work with this numpy",
            "It was written or compiled for an older numpy.",
            "upgrade the package in the traceback, or install numpy below 2",
        ),
        ("numpy-alias", "numpy-abi"),
        unless=("deepspeed-frame",),
    ),
    WordRule(
        Outcome(
            "CRS032",
            "toolkit-missing",
            "an extension is to be compiled and there is no CUDA toolkit",
            "torch brings run-time libraries and no nvcc. What nvidia-smi prints as CUDA version "
            "is the driver's, not a toolkit.",
            "install the CUDA toolkit of torch's CUDA major and set CUDA_HOME",
        ),
        ("missing-cuda-home",),
        unless=("build-without-torch",),
    ),
    WordRule(
        Outcome(
            "CRS032",
            "toolkit-missing",
            "once the build sees torch, it will ask for a CUDA toolkit",
            "The second barrier behind the first.",
            "install the CUDA toolkit of torch's CUDA major and set CUDA_HOME",
        ),
        ("missing-cuda-home",),
        needs=("build-without-torch",),
        status=Status.WARN,
    ),
    WordRule(
        Outcome(
            "CRS034",
            "build-isolation",
            "the build does not see the installed torch",
            "pip builds in an environment of its own, which holds no torch; installing torch again "
            "changes nothing.",
            "install with --no-build-isolation after torch",
        ),
        ("build-without-torch",),
    ),
    WordRule(
        Outcome(
            "CRS034",
            "build-isolation",
            "the build does not see the installed torch",
            "pip builds in an environment of its own, which holds no torch.",
            "install with --no-build-isolation after torch",
        ),
        ("no-module-torch",),
        needs=("pip-build-words",),
        unless=("build-without-torch",),
    ),
    WordRule(
        Outcome(
            "CRS039",
            "torch-missing",
            "there is no torch in the interpreter that ran this",
            "Another interpreter than the one with torch ran the program.",
            "activate the environment, or install torch into this one",
        ),
        ("no-module-torch",),
        unless=("pip-build-words", "build-without-torch"),
    ),
    WordRule(
        Outcome(
            "CRS035",
            "transformers-regression",
            "this release of transformers does not work with DeepSpeed",
            "transformers 5.1.0 has a regression in its DeepSpeed set-up.",
            "install another release: transformers!=5.1.0",
        ),
        ("transformers-deepspeed-regression",),
    ),
    WordRule(
        Outcome(
            "CRS016",
            "resolver-auto-backend",
            "uv's automatic choice gave the CPU build",
            "--torch-backend=auto did not recognise the GPU.",
            "name the backend: --torch-backend=cuNNN for this driver",
        ),
        ("uv-auto-cpu",),
    ),
    WordRule(
        Outcome(
            "CRS016",
            "resolver-auto-backend",
            "uv's automatic choice gave the CPU build",
            "--torch-backend=auto did not recognise the GPU.",
            "name the backend: --torch-backend=cuNNN for this driver",
        ),
        ("torch-cpu-line",),
        needs=("uv-auto-words",),
        unless=("uv-auto-cpu",),
    ),
    # Nothing wrong was installed: the resolver stopped before it chose.
    WordRule(
        Outcome(
            "CRS016",
            "resolver-auto-backend",
            "uv could not read the driver's version",
            "With several GPUs, or under WSL, --torch-backend=auto of older releases cannot parse "
            "what nvidia-smi prints.",
            "name the backend: --torch-backend=cuNNN for this driver, or upgrade uv",
        ),
        ("uv-driver-parse",),
        status=Status.WARN,
    ),
)
_TORCH_SYMBOL = re.compile(r"(?:\d{1,3}|_)(?:c10|at|torch|caffe2)(?:\d|E|_)|^(?:THP|aoti_torch_)")
_OLD_STRING = re.compile(r"(?<![A-Z])S[bs](?:\w{0,12})$|RKSs|NS_14SourceLocationESs")


def check_package_words(case: Case) -> Iterator[Finding]:
    """Words that name the cause."""
    yield from apply_words(_WORDS, case)


def check_undefined_symbol(case: Case) -> Iterator[Finding]:
    """A symbol that the loaded libraries do not have: its name tells whose it is."""
    hit = case.log.first("undefined-symbol")
    if hit is None:
        return
    symbol = hit.groups["sym"]
    outcome = _outcome_of(symbol)
    more = (Evidence("symbol", symbol, hit.place),)
    if outcome is OLD_STRING:
        abi = "the new std::string" if "__cxx1112basic_string" in symbol else "the old std::string"
        yield make_finding(case, outcome, Status.FAIL, (_with(hit, abi=abi),), more=more)
        return
    yield make_finding(case, outcome, Status.FAIL, (_with(hit, lib=_file_of(hit)),), more=more)


def _outcome_of(symbol: str) -> Outcome:
    if symbol.startswith(("__nvJitLink", "cublas", "cudnn", "cusparse")):
        return NVJITLINK
    if symbol.startswith(("nccl", "pnccl")):
        return NCCL
    if symbol.startswith("iJIT_"):
        return MKL
    if _TORCH_SYMBOL.search(symbol) and _tells_string_abi(symbol):
        return OLD_STRING
    return TORCH_VERSION if _TORCH_SYMBOL.search(symbol) else _OTHER_SYMBOL


_OTHER_SYMBOL = Outcome(
    "CRS036",
    "symbol-missing",
    "a compiled file needs a symbol that nothing here has",
    "{lib} and the libraries that were loaded do not belong together.",
    "reinstall the package of that file and what it depends on",
)


def _tells_string_abi(symbol: str) -> bool:
    """Whether the symbol takes a std::string, whose spelling tells the C++ ABI."""
    return "__cxx1112basic_string" in symbol or bool(_OLD_STRING.search(symbol))


def _with(hit: Hit, **groups: str) -> Hit:
    from dataclasses import replace

    return replace(hit, groups={**hit.groups, **groups})


def _file_of(hit: Hit) -> str:
    match = re.search(r"([\w.+-]{1,120}\.(?:so|pyd)[\w.]{0,20}): ", hit.text)
    return match[1] if match else "a compiled file"


def check_missing_library(case: Case) -> Iterator[Finding]:
    """A shared library that the loader does not find."""
    hit = case.log.first("cannot-open-shared")
    if hit is None:
        return
    is_runtime = re.match(
        r"lib(?:cudart|cublas|cufft|cusparse|nvrtc|cudnn|nccl)\b", hit.groups["lib"]
    )
    outcome = CUDART if is_runtime else MISSING_LIBRARY
    yield make_finding(case, outcome, Status.FAIL, (hit,))


def check_system_library(case: Case) -> Iterator[Finding]:
    """A version of the C or C++ library that is not there."""
    hit = case.log.first("glibc-version")
    if hit is None:
        return
    is_glibc = hit.groups["v"].startswith("GLIBC_")
    yield make_finding(case, _GLIBC if is_glibc else _LIBSTDCXX, Status.FAIL, (hit,))


_GLIBC = Outcome(
    "CRS033",
    "glibc-too-old",
    "the system's C library is older than a wheel needs",
    "{v} is not there: the wheel was built for a newer system.",
    "take an older wheel, or a newer system or image",
)
_LIBSTDCXX = Outcome(
    "CRS027",
    "libstdcxx-mismatch",
    "the libstdc++ that is loaded first is older than a library needs",
    "{v} is not there. Two copies of libstdc++ are about, conda's and the system's, and the older "
    "one wins; what follows in the log is the consequence.",
    "conda install -c conda-forge libstdcxx-ng and look at $CONDA_PREFIX/lib/libstdc++.so.6; "
    "delete ~/.cache/torch_extensions if it was compiled there",
)


def check_toolkit_version(case: Case) -> Iterator[Finding]:
    """The toolkit's CUDA is not torch's: another major does not build, another minor may."""
    hit = case.log.first("cuda-version-mismatch")
    if hit is None:
        return
    nvcc = hit.groups.get("nvcc") or hit.groups.get("nvcc2", "?")
    torch = hit.groups.get("torch") or hit.groups.get("torch2", "?")
    is_minor = nvcc.split(".")[0] == torch.split(".")[0]
    named = _with(hit, nvcc=nvcc, torch=torch)
    if is_minor:
        yield make_finding(case, _TOOLKIT_MINOR, Status.WARN, (named,))
    else:
        yield make_finding(case, _TOOLKIT, Status.FAIL, (named,))


_TOOLKIT = Outcome(
    "CRS013",
    "toolkit-major-mismatch",
    "the CUDA toolkit {nvcc} is of another major than torch's CUDA {torch}",
    "Extensions are compiled with the toolkit and loaded beside torch's runtime: the majors have "
    "to be the same.",
    "install torch built for the toolkit's major, or the toolkit of torch's CUDA {torch}",
)
_TOOLKIT_MINOR = Outcome(
    "CRS013",
    "toolkit-minor-mismatch-ok",
    "the CUDA toolkit {nvcc} and torch's CUDA {torch} differ in the minor only",
    "That compiles, as a rule.",
    "set DS_SKIP_CUDA_CHECK=1 where DeepSpeed stops for it",
)
