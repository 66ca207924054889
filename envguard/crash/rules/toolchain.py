"""What compilers, linkers and ninja say when an extension does not build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envguard.crash.rules.builds import INSTALL_TOOLKIT
from envguard.crash.rules.model import Outcome, WordRule, apply_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envguard.crash.case import Case
    from envguard.facts.findings import Finding

_NOT_BUILT = Outcome(
    "CRS157",
    "extension-build-failed",
    "the extension {name} did not compile",
    "It is compiled on first use, and what was left in the cache of an earlier try is not tried "
    "again. The compiler's own error stands before this line, possibly in the log of another "
    "rank.",
    "read the first 'error:' above; then delete the folder of that name below "
    "~/.cache/torch_extensions and try again",
)
_WORDS = (
    WordRule(
        Outcome(
            "CRS151",
            "compiler-too-old-for-torch",
            "the C++ compiler of the build is older than torch's headers demand",
            "The compiler that the build picks counts, not the newest one that is installed: it is "
            "CXX, or else the c++ that PATH finds first, and nvcc has its own (-ccbin).",
            "set CC and CXX to a newer GCC (conda install -c conda-forge gxx, or a newer module) "
            "and delete ~/.cache/torch_extensions",
            ("env", "CC=gcc", "CXX=g++"),
        ),
        ("compiler-too-old",),
    ),
    WordRule(
        Outcome(
            "CRS102",
            "host-compiler-not-accepted",
            "nvcc cannot read the headers of this host compiler",
            "It is newer than this CUDA toolkit knows; the toolkit did not say so itself.",
            "name an older compiler: CC=gcc-10 CXX=g++-10, or take a newer toolkit",
            ("env", "CC=gcc-10", "CXX=g++-10"),
        ),
        ("compiler-too-new",),
        unless=("gcc-not-accepted",),
    ),
    WordRule(
        Outcome(
            "CRS152",
            "compiler-missing",
            "something is to be compiled and there is no C or C++ compiler",
            "Extensions, and the launchers of Triton's kernels, are compiled on this machine.",
            "install one (apt-get install build-essential, conda install -c conda-forge gxx; on "
            "Windows the Build Tools for Visual Studio, in their own prompt), or set CC and CXX",
        ),
        ("compiler-missing",),
    ),
    WordRule(
        Outcome(
            "CRS032",
            "toolkit-missing",
            "headers of the CUDA toolkit are not there: {header}",
            "The toolkit is not installed whole, or CUDA_HOME points to another folder; conda's "
            "cuda-nvcc alone has the compiler and not the headers.",
            INSTALL_TOOLKIT,
        ),
        ("toolkit-headers",),
    ),
    WordRule(
        Outcome(
            "CRS032",
            "toolkit-missing",
            "the linker does not find the CUDA toolkit's library {library}",
            "It looks into lib64 of CUDA_HOME; a toolkit that is not installed whole, or that a "
            "package manager spread out, has no {library} there.",
            f"{INSTALL_TOOLKIT}; or add the folder that holds lib{{library}}.so to LIBRARY_PATH",
        ),
        ("toolkit-libraries",),
    ),
    WordRule(
        Outcome(
            "CRS032",
            "toolkit-missing",
            "nvcc is asked for and is not there",
            "torch brings run-time libraries and no nvcc.",
            INSTALL_TOOLKIT,
        ),
        ("nvcc-absent",),
        unless=("missing-cuda-home",),
    ),
    WordRule(
        Outcome(
            "CRS032",
            "toolkit-missing",
            "a setup asks the CUDA toolkit for its version and there is none",
            "CUDA_HOME is not set and nvcc is not on PATH: the setup joins None to a path.",
            INSTALL_TOOLKIT,
        ),
        ("cuda-home-none",),
        needs=("cuda-home-frame",),
        unless=("missing-cuda-home",),
    ),
    WordRule(
        Outcome(
            "CRS038",
            "shared-library-missing",
            "the linker does not find the driver's libcuda",
            "Triton and some extensions link against libcuda.so, which the driver brings as "
            "libcuda.so.1.",
            "put the folder of libcuda.so on LIBRARY_PATH (the stubs folder of the toolkit will "
            "do), or install the driver's development package",
        ),
        ("driver-stub",),
    ),
    WordRule(
        Outcome(
            "CRS038",
            "shared-library-missing",
            "libaio and its headers are not installed",
            "DeepSpeed's async_io, for offload to NVMe, is compiled against them.",
            "apt-get install libaio-dev (or yum install libaio-devel), or leave that op out: "
            "DS_BUILD_AIO=0",
        ),
        ("libaio-missing",),
    ),
    WordRule(
        Outcome(
            "CRS153",
            "python-headers-missing",
            "the headers of Python are not installed",
            "Extensions, and the launchers of Triton's kernels, are compiled against Python.h.",
            "install them for this very Python: apt-get install python3-dev (python3.11-dev ...)",
        ),
        ("python-headers",),
    ),
    WordRule(
        Outcome(
            "CRS154",
            "ninja-missing",
            "extensions are compiled with ninja, which is not there",
            "It has to be on PATH, in the environment that runs the program.",
            "install ninja, and run the program with the environment activated",
            ("python", "-m", "pip", "install", "ninja"),
        ),
        ("ninja-absent",),
    ),
    WordRule(
        Outcome(
            "CRS155",
            "build-out-of-memory",
            "the compiler was killed: too many of them for the memory",
            "One nvcc of a package such as flash-attn takes several GiB, and ninja starts one for "
            "each processor.",
            "limit them: MAX_JOBS=4 (or less) before the same command; or take a prebuilt wheel",
            ("env", "MAX_JOBS=4"),
        ),
        ("compiler-killed",),
    ),
    WordRule(_NOT_BUILT, ("extension-build-failed",)),
    WordRule(_NOT_BUILT, ("extension-not-built",), unless=("extension-build-failed",)),
)


def check_toolchain_words(case: Case) -> Iterator[Finding]:
    """Words that name the cause."""
    yield from apply_words(_WORDS, case)
